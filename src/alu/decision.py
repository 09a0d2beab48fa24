"""From evidence to an answer: Evidence, the rules (alu, purified, abstain), Decision, Outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, Literal

import torch
from torch import Tensor

from alu.errors import check_choice

RuleName = Literal["alu", "purified", "abstain"]


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

    @staticmethod
    def join(parts: Sequence[Evidence]) -> Evidence:
        """One piece of evidence from those of several batches."""
        images, purified, before, after = (torch.cat([getattr(part, name) for part in parts]) for name in TENSORS)
        return Evidence(images, purified, before, after, parts[0].classifier)


TENSORS = ("images", "purified", "pre_logits", "post_logits")
"""The fields of `Evidence` that have a row for each image."""


@dataclass(frozen=True)
class Decision:
    """The deployed answer for each image; `decision[3]` is that for image 3, `decision[:10]` those for the first ten.

    Parameters
    ----------
    label, accepted
        The predicted class (int64 [N]), and False where the rule abstains from answering (bool [N]).
    flagged, score, p_value
        Whether the detector finds the image suspicious, its score and its p-value [N]; NaN without a detector.
    pre_logits, post_logits
        Logits before and after purification [N, classes].
    purified
        The purified images.

    Examples
    --------
    >>> decision = defense.decide(images)
    >>> sorted(decision[0].to_dict())
    ['accepted', 'flagged', 'label', 'p_value', 'post_logits', 'pre_logits', 'score']
    """

    label: Tensor
    accepted: Tensor
    flagged: Tensor
    score: Tensor
    p_value: Tensor
    pre_logits: Tensor
    post_logits: Tensor
    purified: Tensor

    def __len__(self) -> int:
        return len(self.label)

    def __getitem__(self, at: int | slice | Tensor) -> Decision:
        """The decision on one image, with one value per field, or on several."""
        return Decision(*(getattr(self, item.name)[at] for item in fields(Decision)))

    def to_dict(self, purified: bool = False) -> dict[str, Any]:
        """Plain values by name, ready for JSON: NaN becomes None, and images are left out unless `purified`."""
        names = [item.name for item in fields(Decision) if purified or item.name != "purified"]
        return {name: _plain(getattr(self, name).tolist()) for name in names}

    def outcome(self, labels: Tensor) -> Tensor:
        """CORRECT, WRONG or REJECTED for each image [N], as int64 values of `Outcome`."""
        right = torch.where(self.label == labels.to(self.label.device), Outcome.CORRECT, Outcome.WRONG)
        return torch.where(self.accepted, right, Outcome.REJECTED)

    @staticmethod
    def join(parts: Sequence[Decision]) -> Decision:
        """One decision from those of several batches."""
        return Decision(*(torch.cat([getattr(part, item.name) for part in parts]) for item in fields(Decision)))


def _plain(value: Any) -> Any:
    """The same value with None in place of NaN, which JSON does not have."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if value != value else value  # noqa: PLR0124


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
    """How evidence and flags become logits, and whether flagged images are rejected."""

    name: str
    logits: Callable[[Evidence, Tensor], Tensor]
    uses_flags: bool
    """Whether the logits themselves depend on the flags."""
    rejects: bool
    """Whether a flagged image is not answered."""

    @property
    def needs_detector(self) -> bool:
        """Whether decisions depend on the flags."""
        return self.uses_flags or self.rejects


def _alu(evidence: Evidence, flagged: Tensor) -> Tensor:
    return torch.where(flagged[:, None], evidence.change, evidence.post_logits)


def _purified(evidence: Evidence, flagged: Tensor) -> Tensor:
    return evidence.post_logits


RULES = {
    rule.name: rule
    for rule in (
        Rule("alu", _alu, uses_flags=True, rejects=False),
        Rule("purified", _purified, uses_flags=False, rejects=False),
        Rule("abstain", _purified, uses_flags=False, rejects=True),
    )
}


def find_rule(name: str) -> Rule:
    """The rule of this name."""
    check_choice("rule", name, RULES)
    return RULES[name]
