"""From evidence to an answer: Evidence, the rules (alu, purified, abstain, graded), Decision, Outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, Literal

import torch
from torch import Tensor

from alu.errors import check_choice
from alu.state import Rows, State

RuleName = Literal["alu", "purified", "abstain", "graded"]


@dataclass(frozen=True)
class Evidence:
    """What detectors and rules decide from.

    Parameters
    ----------
    images, purified
        The images, and their purified versions.
    pre_logits, post_logits
        Π' and Π, the classifier's logits before and after purification [N, classes].
    classifier
        The classifier itself, for detectors that ask it about further images.

    Examples
    --------
    >>> defense.evidence(images).change.shape
    torch.Size([4, 10])
    """

    images: Tensor
    purified: Tensor
    pre_logits: Tensor
    post_logits: Tensor
    classifier: Callable[[Tensor], Any] | None = None

    @property
    def change(self) -> Tensor:
        """Δ = Π - Π', how much each logit rose [N, classes]."""
        return self.post_logits - self.pre_logits

    def __len__(self) -> int:
        return len(self.images)

    def take(self, at: Tensor) -> Evidence:
        """The evidence for the images at these positions."""
        at = at.to(self.images.device)
        images, purified, before, after = (getattr(self, name)[at] for name in TENSORS)
        return Evidence(images, purified, before, after, self.classifier)

    def without_images(self) -> Evidence:
        """The logits alone, for detectors that look at nothing else: no memory is kept for pixels."""
        nothing = self.images.new_empty((len(self), 0))  # a slice would keep all of them alive
        return Evidence(nothing, nothing, self.pre_logits, self.post_logits, self.classifier)

    @staticmethod
    def join(parts: Sequence[Evidence]) -> Evidence:
        """One piece of evidence from those of several batches."""
        images, purified, before, after = (torch.cat([getattr(part, name) for part in parts]) for name in TENSORS)
        return Evidence(images, purified, before, after, parts[0].classifier)


TENSORS = ("images", "purified", "pre_logits", "post_logits")
"""The fields of `Evidence` that have a row for each image."""


@dataclass(frozen=True)
class Findings:
    """What the tests say about each image [N]: whether it is flagged, its `State`, and whether it is noisy, that is
    whether its corruption is all over it, so that purification helps."""

    flagged: Tensor
    state: Tensor
    noisy: Tensor

    @staticmethod
    def of(flagged: Tensor, suspicious: Tensor, noisy: Tensor, specked: Tensor) -> Findings:
        """From the outcome of each test [N]; few spoilt pixels do not count where all are noisy."""
        state = torch.where(suspicious, int(State.SUSPICIOUS), int(State.CLEAN))
        state = torch.where(flagged, int(State.ATTACKED), state)
        return Findings(flagged, torch.where(noisy | specked, int(State.CORRUPTED), state), noisy)

    @staticmethod
    def none(logits: Tensor) -> Findings:
        """Where nothing was looked for, for rules that do not ask."""
        no = torch.zeros(len(logits), dtype=torch.bool, device=logits.device)
        return Findings.of(no, no, no, no)


@dataclass(frozen=True)
class Decision(Rows):
    """The deployed answer for each image; `decision[3]` is that for image 3, `decision[:10]` those for the first ten.

    Parameters
    ----------
    label, accepted
        The predicted class (int64 [N]), and False where the rule abstains from answering (bool [N]).
    flagged, score, p_value
        Whether the detector flags the image, its score and its p-value [N]; NaN without a detector.
    state
        What the tests say about the image, as values of `State` (int64 [N]); all clean without a detector.
    pre_logits, post_logits
        Logits before and after purification [N, classes].
    purified
        The purified images.

    Examples
    --------
    >>> decision = defense.decide(images)
    >>> sorted(decision[0].to_dict())
    ['accepted', 'flagged', 'label', 'p_value', 'post_logits', 'pre_logits', 'score', 'state']
    """

    label: Tensor
    accepted: Tensor
    flagged: Tensor
    score: Tensor
    p_value: Tensor
    state: Tensor
    pre_logits: Tensor
    post_logits: Tensor
    purified: Tensor

    def outcome(self, labels: Tensor) -> Tensor:
        """CORRECT, WRONG or REJECTED for each image [N], as int64 values of `Outcome`."""
        right = torch.where(self.label == labels.to(self.label.device), Outcome.CORRECT, Outcome.WRONG)
        return torch.where(self.accepted, right, Outcome.REJECTED)

    @staticmethod
    def join(parts: Sequence[Decision]) -> Decision:
        """One decision from those of several batches."""
        return Decision(*(torch.cat([getattr(part, item.name) for part in parts]) for item in fields(Decision)))


class Outcome(IntEnum):
    """Whether the answer for one image is wrong, correct, or was refused.

    Examples
    --------
    >>> alu.Outcome.REJECTED in defense.decide(images).outcome(labels)
    False
    """

    WRONG = 0
    CORRECT = 1
    REJECTED = 2


@dataclass(frozen=True)
class Rule:
    """How evidence and findings become logits, and whether flagged images are rejected."""

    name: str
    logits: Callable[[Evidence, Findings], Tensor]
    uses_flags: bool = False
    """Whether the logits themselves depend on the flags."""
    rejects: bool = False
    """Whether a flagged image is not answered."""
    uses_state: bool = False
    """Whether the logits depend on the state, and may be those of the image itself."""

    @property
    def needs_detector(self) -> bool:
        """Whether decisions depend on the flags."""
        return self.uses_flags or self.rejects

    def decide(self, evidence: Evidence, findings: Findings) -> tuple[Tensor, Tensor]:
        """The label of each image, and whether it is answered, both [N]."""
        accepted = ~findings.flagged if self.rejects else torch.ones_like(findings.flagged)
        return self.logits(evidence, findings).argmax(1), accepted


def _alu(evidence: Evidence, findings: Findings) -> Tensor:
    return torch.where(findings.flagged[:, None], evidence.change, evidence.post_logits)


def _purified(evidence: Evidence, findings: Findings) -> Tensor:
    return evidence.post_logits


def _graded(evidence: Evidence, findings: Findings) -> Tensor:
    # Noise is best answered after purification; a few spoilt pixels, which purification smears, before it.
    after = (findings.state == State.SUSPICIOUS) | findings.noisy
    answer = torch.where(after[:, None], evidence.post_logits, evidence.pre_logits)
    return torch.where((findings.state == State.ATTACKED)[:, None], evidence.change, answer)


RULES = {
    rule.name: rule
    for rule in (
        Rule("alu", _alu, uses_flags=True),
        Rule("purified", _purified),
        Rule("abstain", _purified, rejects=True),
        Rule("graded", _graded, uses_flags=True, uses_state=True),
    )
}


def find_rule(name: str) -> Rule:
    """The rule of this name."""
    check_choice("rule", name, RULES)
    return RULES[name]
