"""Detector: evidence in, suspicion score and p-value out; the threshold comes from a false-alarm rate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from alu.decision import Evidence
from alu.errors import InputError, NotFittedError, UsageError
from alu.parts import Part
from alu.purifiers.base import Traits
from alu.stats import conformal_rank, fewest_clean


def conformal_p_values(scores: Tensor, clean: Tensor) -> Tensor:
    """p = (1 + #{clean scores >= score}) / (n + 1) for each score; `clean` is sorted ascending."""
    below = torch.searchsorted(clean, scores.contiguous())
    return (1 + len(clean) - below).to(torch.float64) / (len(clean) + 1)


def threshold_among(clean: Tensor, false_alarm: float) -> Tensor:
    """The largest score that is not flagged: p <= false_alarm exactly for scores above it. `clean` is sorted."""
    return clean[max(0, conformal_rank(len(clean), false_alarm))]


@dataclass(frozen=True)
class Detection:
    """A detector's result for each image [N]: its suspicion score, its p-value, and whether it is flagged."""

    score: Tensor
    p_value: Tensor
    flagged: Tensor


class Detector(Part, nn.Module, ABC):
    """Base of all detectors. A subclass writes `score`; this class calibrates and tests.

    Fitted: `scores_`, the sorted scores of clean images, and `threshold_`. An image is flagged when its score is above
    `threshold_`, that is when its conformal p-value is at most `false_alarm`. What is fitted is stored in buffers,
    so that `state_dict` contains it; a subclass lists its own in `fitted`.

    Parameters
    ----------
    false_alarm
        The share of clean images that may be flagged.

    Examples
    --------
    >>> class Brightness(alu.detectors.Detector):
    ...     def score(self, evidence):
    ...         return evidence.images.mean((1, 2, 3))
    """

    family: ClassVar[str] = "detector"
    fitted: ClassVar[tuple[str, ...]] = ("scores_",)
    around: ClassVar[str] = ""
    """The norm of the ball around the picture that the detector vouches for, with its `radius`; no purifier may stand
    before such a detector."""
    pixels: ClassVar[bool] = True
    """Whether `score` looks at images; where it does not, calibration keeps none in memory."""
    counts_constants: ClassVar[bool] = False
    """Whether a constant that is added to all logits of an image changes its score."""
    scores_: Tensor

    def __init__(self, false_alarm: float = 0.005) -> None:
        super().__init__()
        if not 0.0 < false_alarm < 1.0:
            raise UsageError(f"false_alarm is a share of clean images, such as 0.005; it is {false_alarm}.")
        self.false_alarm = false_alarm
        # float64, whatever the networks compute in: a score and its own copy must compare as equal after saving.
        self.register_buffer("scores_", torch.empty(0, dtype=torch.float64))

    @property
    def traits(self) -> Traits:
        """What an attacker has to deal with."""
        return Traits(detector=True)

    @abstractmethod
    def score(self, evidence: Evidence) -> Tensor:
        """Suspicion scores [N], differentiable where the evidence is; higher is worse."""

    @property
    def calibrated(self) -> bool:
        """Whether `calibrate` has been called."""
        return self.scores_.numel() > 0

    @property
    def threshold_(self) -> Tensor:
        """The largest score that is not flagged."""
        self.require_calibration()
        return threshold_among(self.scores_, self.false_alarm)

    def thresholds(self, evidence: Evidence, rate: float | None = None) -> Tensor:
        """The threshold that holds for each image [N]; with `rate`, that of this rate in place of `false_alarm`, which
        it must not be below."""
        if rate is None:
            return self.threshold_.expand(len(evidence))
        self.require_calibration()
        return threshold_among(self.scores_, rate).expand(len(evidence))

    def calibrate(self, evidence: Evidence) -> None:
        """Store the scores of clean images that were not used for training or for choosing settings."""
        self.refuse_too_few(len(evidence), "")
        scores = self.score(evidence).detach().to("cpu", torch.float64)
        if not bool(torch.isfinite(scores).all()):
            raise InputError(
                f"{type(self).__name__} gave NaN or infinite scores on the calibration images. Check its `score`."
            )
        self.scores_ = scores.sort().values

    def p_values(self, evidence: Evidence, scores: Tensor) -> Tensor:
        """Conformal p-values, (1 + #{clean scores >= score}) / (n + 1) [N], in float64."""
        self.require_calibration()
        return conformal_p_values(scores.detach().to("cpu", torch.float64), self.scores_).to(scores.device)

    def test(self, evidence: Evidence) -> Detection:
        """Score, p-value and flag of each image, each computed once."""
        score = self.score(evidence)
        p_value = self.p_values(evidence, score)
        # A score that is not a number is not below any threshold: such an image is flagged.
        accepted = score.detach().to("cpu", torch.float64) <= self.thresholds(evidence)
        return Detection(score, p_value, ~accepted.to(score.device))

    def require_calibration(self) -> None:
        """Raise an error that says what to do if there is no threshold yet."""
        if not self.calibrated:
            raise NotFittedError(
                f"{type(self).__name__} has no threshold yet. Call defense.calibrate(images) with clean images first."
            )

    def refuse_too_few(self, count: int, where: str) -> None:
        """Raise an error if the clean images are so few that nothing could ever be flagged."""
        least = fewest_clean(self.false_alarm)
        if count < least:
            raise InputError(
                f"{type(self).__name__} needs at least {least} clean images{where} for a false-alarm rate of "
                f"{100 * self.false_alarm:g} %; it was given {count}. Give more images or allow more false alarms."
            )

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move or convert the module; the fitted buffers stay in float64 on the CPU, where scores are compared."""
        kept = {name: getattr(self, name) for name in self.fitted}
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, tensor in kept.items():
            setattr(self, name, tensor)
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *rest: object) -> None:
        """Give the fitted buffers the sizes they were saved with."""
        for name in self.fitted:
            if prefix + name in state_dict:
                setattr(self, name, torch.empty_like(state_dict[prefix + name], device="cpu"))
        super()._load_from_state_dict(state_dict, prefix, *rest)
