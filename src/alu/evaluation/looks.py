"""Looks at a subject: what it says about the same images in several ways, and the traits that this shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from alu.attacks.adaptive.view import Level, View
from alu.attacks.goals import gradient_of, logits_of, margin
from alu.errors import AluError
from alu.evaluation.subject import Subject
from alu.modes import evaluating
from alu.purifiers.base import Traits

STEADY = 1e-3
"""Up to here logits differ by float noise."""
USABLE = 0.9
"""So many images must have a gradient that is a number and not zero."""


@dataclass(frozen=True)
class Seen:
    """What a subject says about some images: logits, whether each is answered, and the detector's score (0: none)."""

    logits: Tensor
    accepted: Tensor
    score: Tensor

    def moved(self, other: Seen) -> float:
        """By how much logits, relative to the largest of an image, or scores, relative to the largest of all, differ:
        the median over images."""
        logits = (self.logits - other.logits).abs().amax(1) / self.logits.abs().amax(1).clamp_min(1e-6)
        score = (self.score - other.score).abs() / self.score.abs().max().clamp_min(1e-6)
        return max(float(logits.median()), float(score.median()))

    def changed(self, other: Seen) -> int:
        """How many images are answered otherwise, or by one and not by the other."""
        answer = self.logits.argmax(1) != other.logits.argmax(1)
        return int((answer | (self.accepted != other.accepted)).sum())

    def turned(self) -> Seen:
        """The last image first."""
        return Seen(self.logits.flip(0), self.accepted.flip(0), self.score.flip(0))

    def same(self, other: Seen) -> bool:
        """Equal up to float noise: single images may flip with Adam's sign steps, the median may not move."""
        return self.moved(other) <= STEADY and self.changed(other) <= max(1, len(self.logits) // 100)


@torch.no_grad()
def seen(subject: Subject, images: Tensor) -> Seen:
    """One look at the subject."""
    with evaluating(subject.model, subject.classifier):
        logits = logits_of(subject.model, images)
        none = torch.zeros(len(images), device=images.device)
        if subject.defense is None:
            return Seen(logits, none == 0, none)
        decision = subject.defense.decide(images)
        return Seen(logits, decision.accepted, torch.nan_to_num(decision.score.to(none)))


def joined(parts: Sequence[Seen]) -> Seen:
    """Several looks as one."""
    return Seen(*(torch.cat([getattr(part, name) for part in parts]) for name in ("logits", "accepted", "score")))


def seen_traits(subject: Subject, images: Tensor, labels: Tensor) -> Traits:
    """Traits that show in a few answers, whatever is declared: other answers in a second call or in smaller batches,
    and an output, or a score that decides, without a usable gradient."""
    whole, again = seen(subject, images), seen(subject, images)
    alone = joined([seen(subject, images[place : place + 1]) for place in range(len(images))])
    random = not whole.same(again)
    try:
        enough = all(float(usable(slope).float().mean()) >= USABLE for slope in slopes(subject, images, labels))
    except AluError:
        enough = False
    return Traits(
        stochastic=random,
        # Where answers are random anyway, nothing can be said about the batch.
        batch_dependent=not random and not whole.same(alone),
        gradient="exact" if enough else "approximate",
    )


def usable(slope: Tensor) -> Tensor:
    """Which images have a gradient that is a number and not zero [N]."""
    flat = slope.flatten(1)
    return torch.isfinite(flat).all(1) & (flat.abs().amax(1) > 0)


def slopes(subject: Subject, images: Tensor, labels: Tensor) -> list[Tensor]:
    """Gradients of the deployed output's margin and, where a detector decides, of its score."""
    found = [margin_slope(subject, images, labels)]
    if subject.defense is not None and subject.defense.traits.detector:
        view = View(subject.defense, Level(subject.defense.grad_mode), "The diagnostic")
        with evaluating(subject.model, subject.classifier), torch.enable_grad():
            at = images.detach().clone().requires_grad_(True)
            found.append(gradient_of(view.excess(view.evidence(at)).sum(), at, "The diagnostic").detach())
    return found


def margin_slope(subject: Subject, images: Tensor, labels: Tensor) -> Tensor:
    """The gradient of the deployed output's margin."""
    with evaluating(subject.model, subject.classifier), torch.enable_grad():
        at = images.detach().clone().requires_grad_(True)
        value = margin(logits_of(subject.model, at), labels)
        return gradient_of(value.sum(), at, "The diagnostic").detach()
