"""The promise of a false-alarm rate, on fresh clean images."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import betabinom

from alu import Defense
from alu.detectors import Combined, Detector, Disagreement, LogitShift, ReconstructionError
from alu.purifiers import Blur
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


def test_the_interval_can_fail() -> None:
    # Thresholds taken from other images than those judged give another rate, and the same interval sees it.
    defense = Defense(LinearClassifier(SHAPE, 5), Blur(0.6), LogitShift(RATE))
    defense.calibrate(images_like(CLEAN, SHAPE, seed=1) * 0.5)
    alarms = int(defense.decide(images_like(FRESH, SHAPE, seed=2)).flagged.sum())
    flagging = int(RATE * (CLEAN + 1))
    low, high = betabinom(FRESH, flagging, CLEAN + 1 - flagging).interval(0.999)
    assert not low <= alarms <= high
