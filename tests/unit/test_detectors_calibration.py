"""Calibration from batches: the same as from all images together, without keeping them."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from alu import Defense
from alu.detectors import Combined, Confidence, Disagreement, LogitPeak, LogitShift, ReconstructionError
from alu.errors import InputError, UsageError
from alu.purifiers import Blur
from tests.contracts.parts import DETECTORS, LinearClassifier, images_like

SHAPE = (3, 8, 8)
CLEAN, TEST = images_like(60, SHAPE, seed=1), images_like(8, SHAPE, seed=2)


def made(name: str) -> Defense:
    return Defense(LinearClassifier(SHAPE, 4), Blur(0.8), DETECTORS[name](), "graded")


@pytest.mark.parametrize("name", DETECTORS)
def test_batches_calibrate_as_all_images_do(name: str) -> None:
    whole, parts = made(name), made(name)
    if name == "logit shift per class":
        clean = images_like(400, SHAPE, seed=3)
        if int(torch.bincount(whole.logits(clean).argmax(1), minlength=4).min()) < 5:
            pytest.skip("some class is never predicted here")
    else:
        clean = CLEAN
    whole.calibrate(clean)
    parts.calibrate(iter(torch.split(clean, 7)))
    here, there = (defense.decide(TEST) for defense in (whole, parts))
    torch.testing.assert_close(here.p_value, there.p_value)
    assert torch.equal(here.state, there.state)
    assert parts.shape == SHAPE
    torch.testing.assert_close(parts.residual.clean_, whole.residual.clean_)


@pytest.mark.parametrize(
    ("detector", "pixels"),
    [
        (LogitPeak(0.05), False), (LogitShift(0.05), False), (Disagreement(0.05), False), (Confidence(0.05), False),
        (ReconstructionError(0.05), True), (Combined(LogitPeak(0.1), ReconstructionError(0.1), false_alarm=0.1), True),
    ],
)  # fmt: skip
def test_images_are_kept_only_for_detectors_that_look_at_them(detector: LogitPeak, pixels: bool) -> None:
    alive: list[weakref.ref[Tensor]] = []
    most = 0

    def batches() -> Iterator[Tensor]:
        nonlocal most
        for start in range(0, 60, 10):
            batch = images_like(10, SHAPE, seed=start)
            alive.append(weakref.ref(batch))
            yield batch
            del batch
            most = max(most, sum(one() is not None for one in alive))

    Defense(LinearClassifier(SHAPE, 4), Blur(0.8), detector).calibrate(batches())
    assert (most > 2) == pixels, f"{most} of 6 batches were in memory together"


def test_progress_and_mistakes() -> None:
    seen: list[tuple[int, int]] = []
    made("logit peak").calibrate(CLEAN, 25, lambda done, total: seen.append((done, total)))
    assert seen == [(25, 60), (50, 60), (60, 60)]
    with pytest.raises(InputError, match=r"Defense.calibrate was given no image"):
        made("logit peak").calibrate(iter(()))
    with pytest.raises(InputError, match="LogitPeak needs at least 19 clean images"):
        made("logit peak").calibrate(iter([CLEAN[:10]]))
    with pytest.raises(UsageError, match="has no detector to calibrate"):
        Defense(LinearClassifier(SHAPE, 4), rule="purified").calibrate(iter([CLEAN]))
