"""The detectors that give one score: logit shift (the paper's), logit peak, reconstruction error, disagreement,
confidence."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from alu.conformal import Calibration, refuse_too_few_in_a_group
from alu.decision import Evidence
from alu.detectors.base import Detector


class LogitShift(Detector):
    """s = sum over classes of abs(Δ): how far purification moved the logits. The paper's detector.

    Parameters
    ----------
    per_class
        Whether each predicted class (argmax Π) has its own threshold; plus those of `Detector`.

    Examples
    --------
    >>> alu.detectors.LogitShift(false_alarm=0.05).score(defense.evidence(images)).shape
    torch.Size([4])
    """

    pixels, counts_constants = False, True
    fitted: ClassVar[tuple[str, ...]] = ("scores_", "labels_")
    labels_: Tensor
    """The predicted class of the clean image behind each of `scores_`; empty without `per_class`."""

    def __init__(self, false_alarm: float = 0.005, per_class: bool = False) -> None:
        super().__init__(false_alarm)
        self.per_class = per_class
        self.register_buffer("labels_", torch.empty(0, dtype=torch.int64))

    def score(self, evidence: Evidence) -> Tensor:
        """Sum of absolute logit changes."""
        return evidence.change.abs().sum(1)

    def calibrate(self, evidence: Evidence) -> None:
        """Store the clean scores, and with `per_class` the predicted class of each."""
        groups = self._groups(evidence)
        if groups is None:
            super().calibrate(evidence)
            return
        refuse_too_few_in_a_group(groups, evidence.post_logits.shape[1], self.false_alarm, type(self).__name__)
        found = self._calibration_on(evidence)
        self.scores_, self.labels_ = torch.from_numpy(found.scores), torch.from_numpy(found.groups)

    def groups(self, evidence: Evidence) -> Tensor | None:
        """With `per_class` the predicted class."""
        return evidence.post_logits.argmax(1) if self.per_class else None

    @property
    def calibration_(self) -> Calibration:
        """The clean scores, with `per_class` each in its class."""
        return replace(super().calibration_, groups=self.labels_.numpy() if self.per_class else None)


class LogitPeak(Detector):
    """s = max over classes of abs(Δ): how far purification moved the logit it moved most.

    In `LogitShift` the small changes of a clean image add up over the classes; here they do not, and an attack that
    moves a few logits far stands out more. Parameters are those of `Detector`.

    Examples
    --------
    >>> scores = alu.detectors.LogitPeak().score(defense.evidence(images))
    """

    pixels, counts_constants = False, True

    def score(self, evidence: Evidence) -> Tensor:
        """Largest absolute logit change."""
        return evidence.change.abs().amax(1)


class ReconstructionError(Detector):
    """Root mean squared distance between an image and its purified version. Parameters are those of `Detector`.

    Examples
    --------
    >>> scores = alu.detectors.ReconstructionError().score(defense.evidence(images))
    """

    def score(self, evidence: Evidence) -> Tensor:
        """RMSE per image."""
        squared = (evidence.purified - evidence.images).square().flatten(1).mean(1)
        return (squared + 1e-20).sqrt()


class Disagreement(Detector):
    """Jensen-Shannon divergence between the class probabilities before and after purification, in nats.

    Parameters are those of `Detector`.

    Examples
    --------
    >>> scores = alu.detectors.Disagreement().score(defense.evidence(images))
    """

    pixels = False

    def score(self, evidence: Evidence) -> Tensor:
        """Divergence per image, 0 to log 2."""
        before, after = evidence.pre_logits.log_softmax(1), evidence.post_logits.log_softmax(1)
        middle = torch.logaddexp(before, after) - math.log(2.0)
        divergence = F.kl_div(middle, before, log_target=True, reduction="none") + F.kl_div(
            middle, after, log_target=True, reduction="none"
        )
        return 0.5 * divergence.sum(1)


class Confidence(Detector):
    """-log of the highest class probability: an unsure classifier refuses. The plainest way to abstain.

    With rule "abstain" it is the baseline of everything that refuses: `false_alarm` is the share of clean images that
    may be refused. Parameters are those of `Detector`.

    Examples
    --------
    >>> scores = alu.detectors.Confidence(false_alarm=0.2).score(defense.evidence(images))
    """

    pixels = False

    def score(self, evidence: Evidence) -> Tensor:
        """-log p of the answer, 0 or more."""
        return -evidence.post_logits.log_softmax(1).amax(1)
