"""The detectors that give one score: logit shift (the paper's), logit peak, reconstruction error, disagreement,
confidence."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from alu.decision import Evidence
from alu.detectors.base import Detector, conformal_p_values, threshold_among


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

    @property
    def class_scores_(self) -> list[Tensor]:
        """The sorted scores of clean images of each predicted class."""
        return [self.scores_[self.labels_ == label] for label in range(int(self.labels_.max()) + 1)]

    def score(self, evidence: Evidence) -> Tensor:
        """Sum of absolute logit changes."""
        return evidence.change.abs().sum(1)

    def calibrate(self, evidence: Evidence) -> None:
        """Store the clean scores, and with `per_class` the predicted class of each."""
        if self.per_class:
            labels = evidence.post_logits.argmax(1)
            for label in range(evidence.post_logits.shape[1]):
                count = int((labels == label).sum())
                self.refuse_too_few(count, f" predicted as class {label} (per_class thresholds)")
        super().calibrate(evidence)
        if self.per_class:
            # The order among equal scores does not matter: within a class they are equal too.
            self.labels_ = labels.cpu()[self.score(evidence).detach().to("cpu", torch.float64).argsort(stable=True)]

    def p_values(self, evidence: Evidence, scores: Tensor) -> Tensor:
        """p-values against all clean images, or against those of the predicted class."""
        pooled = super().p_values(evidence, scores)
        if not self.per_class:
            return pooled
        values = pooled.clone()
        plain = scores.detach().to("cpu", torch.float64)
        labels = evidence.post_logits.argmax(1)
        for label, clean in enumerate(self.class_scores_):
            chosen = labels == label
            values[chosen] = conformal_p_values(plain[chosen.cpu()], clean).to(values.device)
        return values

    def thresholds(self, evidence: Evidence, rate: float | None = None) -> Tensor:
        """The pooled threshold, or that of each image's predicted class; with `rate`, as in `Detector`."""
        if not self.per_class:
            return super().thresholds(evidence, rate)
        self.require_calibration()
        rate = self.false_alarm if rate is None else rate
        table = torch.stack([threshold_among(clean, rate) for clean in self.class_scores_])
        return table[evidence.post_logits.argmax(1).cpu()]


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
