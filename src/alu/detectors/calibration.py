"""What a detector and the second test learn from clean images, gathered batch by batch."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from alu.check import warn
from alu.decision import Evidence
from alu.detectors.base import Detector
from alu.detectors.residual import Residual
from alu.errors import InputError, UsageError
from alu.progress import Count


def calibrate(
    classifier: object, detector: Detector | None, residual: Residual, batches: Iterable[Evidence],
    watch: Count | None, total: int,
) -> torch.Size:  # fmt: skip
    """Calibrate both on the evidence of clean images; returns channels, height and width of the images.

    Of each batch only what is needed in the end is kept: large pictures do not have to fit memory together.
    """
    if detector is None:
        raise UsageError("This defence has no detector to calibrate. Pass detector= to Defense.")
    warn_of_constants(classifier, detector)
    kept: list[Evidence] = []
    statistics: list[Tensor] = []
    shape, done = torch.Size(), 0
    for evidence in batches:
        shape, done = evidence.images.shape[1:], done + len(evidence)
        if evidence.purified.shape == evidence.images.shape:  # features that are purified are no images
            statistics.append(residual.statistics(evidence))
        kept.append(evidence if detector.pixels else evidence.without_images())
        if watch is not None:
            watch(done, total)
    if not kept:
        raise InputError("Defense.calibrate was given no image. Give it clean images.")
    detector.calibrate(Evidence.join(kept))
    residual.learn(torch.cat(statistics) if statistics else None)
    return shape


def warn_of_constants(classifier: object, detector: Detector) -> None:
    """Warn where a detector counts the constant that log-probabilities leave out of the logits of each image."""
    counting = [part for part in (detector, *getattr(detector, "parts", ())) if part.counts_constants]
    if counting and getattr(classifier, "log_probabilities", False):
        warn(
            f"{type(classifier).__name__} answers with logarithms of probabilities, which are logits but for a "
            f"constant for each image, and {type(counting[0]).__name__} counts that constant. Use "
            "alu.detectors.Disagreement, which does not see it."
        )
