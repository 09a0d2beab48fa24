"""Detector: evidence in, suspicion score and p-value out; the threshold comes from a false-alarm rate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from alu import conformal
from alu.conformal import Calibration, Groups, Numbers
from alu.decision import Evidence
from alu.errors import NotFittedError, UsageError
from alu.parts import Part
from alu.purifiers.base import Traits


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
    def fixed(self) -> float | None:
        """The threshold of a detector that needs no clean images for it; None where it follows from `false_alarm`."""
        return None

    def groups(self, evidence: Evidence) -> Tensor | None:
        """Which group each image is compared with, where clean images fall into several [N]; None for all of them."""
        return None

    @property
    def calibrated(self) -> bool:
        """Whether there is a threshold: a fixed one, or that of `calibrate`."""
        return self.fixed is not None or self.scores_.numel() > 0

    @property
    def calibration_(self) -> Calibration:
        """What p-values, thresholds and flags follow from; without torch, so that an exported defence shares it."""
        self.require_calibration()
        return Calibration(self.scores_.numpy(), self.false_alarm, fixed=self.fixed)

    @property
    def threshold_(self) -> Tensor:
        """The largest score that is not flagged, compared with all clean images."""
        return torch.from_numpy(self.calibration_.thresholds(1))[0]

    def thresholds(self, evidence: Evidence, rate: float | None = None) -> Tensor:
        """The threshold that holds for each image [N]; with `rate`, that of this rate in place of `false_alarm`, which
        it must not be below."""
        return torch.from_numpy(self.calibration_.thresholds(len(evidence), self._groups(evidence), rate))

    def calibrate(self, evidence: Evidence) -> None:
        """Store the scores of clean images that were not used for training or for choosing settings."""
        self.refuse_too_few(len(evidence), "")
        self.scores_ = torch.from_numpy(self._calibration_on(evidence).scores)

    def p_values(self, evidence: Evidence, scores: Tensor) -> Tensor:
        """Conformal p-values, (1 + #{clean scores >= score}) / (n + 1) [N], in float64."""
        values = self.calibration_.p_values(_plain(scores), self._groups(evidence))
        return torch.from_numpy(values).to(scores.device)

    def test(self, evidence: Evidence) -> Detection:
        """Score, p-value and flag of each image, each computed once."""
        score = self.score(evidence)
        p_value = self.p_values(evidence, score)
        flagged = self.calibration_.flags(_plain(score), self._groups(evidence))
        return Detection(score, p_value, torch.from_numpy(flagged).to(score.device))

    def _calibration_on(self, evidence: Evidence) -> Calibration:
        scores = _plain(self.score(evidence))
        return Calibration.of(scores, self.false_alarm, self._groups(evidence), self.fixed, type(self).__name__)

    def _groups(self, evidence: Evidence) -> Groups | None:
        groups = self.groups(evidence)
        return None if groups is None else groups.detach().cpu().numpy()

    def require_calibration(self) -> None:
        """Raise an error that says what to do if there is no threshold yet."""
        if not self.calibrated:
            raise NotFittedError(
                f"{type(self).__name__} has no threshold yet. Call defense.calibrate(images) with clean images first."
            )

    def refuse_too_few(self, count: int, where: str) -> None:
        """Raise an error if the clean images are so few that nothing could ever be flagged."""
        if self.fixed is None:
            conformal.refuse_too_few(count, self.false_alarm, type(self).__name__, where)

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


def _plain(scores: Tensor) -> Numbers:
    """Scores in the precision that they are compared in, without torch."""
    return conformal.numbers(scores.detach().cpu())
