"""Several detectors, one false-alarm rate."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn

from alu.decision import Evidence
from alu.detectors.base import Detector
from alu.errors import UsageError
from alu.rng import generator


class Combined(Detector):
    """Flags an image that any of its detectors finds suspicious, at one false-alarm rate for all together.

    Half of the clean images put the detectors on one scale (the share of clean images that score lower); the largest
    share is the combined score, calibrated on the other half. Two halves, because a scale fitted on the same images
    would make the p-value too small.

    Parameters
    ----------
    *detectors
        Two or more detectors, whose own `false_alarm` is not used; plus those of `Detector`.

    Examples
    --------
    >>> both = alu.detectors.Combined(alu.detectors.LogitShift(), alu.detectors.ReconstructionError(), false_alarm=0.1)
    """

    def __init__(self, *detectors: Detector, false_alarm: float = 0.005) -> None:
        super().__init__(false_alarm)
        if len(detectors) < 2:
            raise UsageError(f"Combined needs at least two detectors; it was given {len(detectors)}.")
        self.detectors = nn.ModuleList(detectors)

    @property
    def parts(self) -> list[Detector]:
        """The detectors in the order given."""
        return [part for part in self.detectors if isinstance(part, Detector)]

    def score(self, evidence: Evidence) -> Tensor:
        """The largest share of clean images that score lower, interpolated so that it has a slope everywhere."""
        if not all(part.calibrated for part in self.parts):
            self.require_calibration()
        shares = [_share_below(part.score(evidence), part.scores_) for part in self.parts]
        return torch.stack(shares).amax(0)

    def calibrate(self, evidence: Evidence) -> None:
        """Scale the parts on one half of the images, calibrate their combination on the other."""
        self.refuse_too_few(len(evidence) // 2, " in each half")
        order = torch.randperm(len(evidence), generator=generator(0, "halves", len(evidence)))
        middle = len(evidence) // 2
        for part in self.parts:
            part.calibrate(evidence.take(order[:middle]))
        super().calibrate(evidence.take(order[middle:]))

    def description(self) -> dict[str, Any]:
        """Its rate and the descriptions of its parts."""
        return {**super().description(), "detectors": [part.description() for part in self.parts]}

    @classmethod
    def from_description(cls, settings: dict[str, Any], trust: bool = False) -> Self:
        """The combination of the described parts."""
        parts = [Detector.rebuild(part, trust) for part in settings["detectors"]]
        return cls(*parts, false_alarm=settings["false_alarm"])


def _share_below(scores: Tensor, clean: Tensor) -> Tensor:
    """The share of clean scores below each score; it keeps growing above the highest one, so that order is kept."""
    clean = clean.to(scores.device, scores.dtype)
    upper = torch.searchsorted(clean, scores.detach().contiguous()).clamp(1, len(clean) - 1)
    low, high = clean[upper - 1], clean[upper]
    inside = (scores - low) / (high - low).clamp_min(1e-12)
    inside = torch.where(scores > clean[-1], 1.0 + (scores / clean[-1].clamp_min(1e-12)).log(), inside.clamp(0.0, 1.0))
    return (upper - 1 + inside) / (len(clean) - 1)
