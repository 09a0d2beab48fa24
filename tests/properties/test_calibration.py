"""The promise of a false-alarm rate, on fresh clean images."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import betabinom

from alu import Defense
from alu.decision import Evidence
from alu.detectors import Combined, Detector, Disagreement, LogitShift, ReconstructionError
from alu.purifiers import Blur
from alu.rng import generator
from tests.contracts.parts import LinearClassifier, images_like

SHAPE = (3, 16, 16)
RATE, CLEAN, FRESH = 0.02, 800, 1500


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("build", "calibrated_on"),
    [
        (lambda: LogitShift(RATE), CLEAN),
        (lambda: ReconstructionError(RATE), CLEAN),
        (lambda: Disagreement(RATE), CLEAN),
        (
            lambda: Combined(LogitShift(RATE), ReconstructionError(RATE), Disagreement(RATE), false_alarm=RATE),
            CLEAN // 2,
        ),
    ],
    ids=["logit shift", "reconstruction error", "disagreement", "combined"],
)
def test_false_alarms_are_what_was_asked_for(build: object, calibrated_on: int, seed: int) -> None:
    detector: Detector = build()  # type: ignore[operator]
    defense = Defense(LinearClassifier(SHAPE, 5), Blur(0.6), detector)
    images = images_like(CLEAN + FRESH, SHAPE, seed=100 + seed)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    defense.calibrate(images[order[:CLEAN]])
    alarms = int(defense.decide(images[order[CLEAN:]]).flagged.sum())
    # Of n calibration and one fresh score each order is equally likely: the number of alarms is beta-binomial.
    flagging = int(RATE * (calibrated_on + 1) + 1e-9)
    low, high = betabinom(FRESH, flagging, calibrated_on + 1 - flagging).interval(0.999)
    assert low <= alarms <= high, (alarms, low, high)


def test_a_combination_keeps_its_rate_with_few_calibration_images() -> None:
    # Where the scale and the threshold come from the same images, this mean is well above the rate.
    rate, clean, fresh, repeats = 0.1, 40, 200, 150
    alarms = 0
    for seed in range(repeats):
        stream = generator(seed, "few")
        logits = torch.randn((clean + fresh, 2, 4), generator=stream)
        images = torch.rand((clean + fresh, 1, 2, 2), generator=stream)
        purified = torch.rand((clean + fresh, 1, 2, 2), generator=stream)
        evidence = Evidence(images, purified, logits[:, 0], logits[:, 1])
        detector = Combined(LogitShift(rate), ReconstructionError(rate), Disagreement(rate), false_alarm=rate)
        detector.calibrate(evidence.take(torch.arange(clean)))
        rest = evidence.take(torch.arange(clean, clean + fresh))
        alarms += int(detector.test(rest).flagged.sum())
    assert alarms / (repeats * fresh) == pytest.approx(
        2 / 21, abs=0.015
    )  # the largest k/(n + 1) up to the rate, n = 20


def test_the_interval_can_fail() -> None:
    # Thresholds taken from other images than those judged give another rate, and the same interval sees it.
    defense = Defense(LinearClassifier(SHAPE, 5), Blur(0.6), LogitShift(RATE))
    defense.calibrate(images_like(CLEAN, SHAPE, seed=1) * 0.5)
    alarms = int(defense.decide(images_like(FRESH, SHAPE, seed=2)).flagged.sum())
    flagging = int(RATE * (CLEAN + 1))
    low, high = betabinom(FRESH, flagging, CLEAN + 1 - flagging).interval(0.999)
    assert not low <= alarms <= high
