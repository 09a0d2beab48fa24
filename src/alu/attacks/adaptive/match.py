"""match: look, before and after purification, like a clean image of another class. Then there is no change to see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from alu.attacks.adaptive.base import AdaptiveAttack, ViewGoal
from alu.attacks.adaptive.view import Level, other_class
from alu.attacks.base import Attack
from alu.errors import UsageError


@contextmanager
def features(classifier: object) -> Iterator[list[Tensor]]:
    """The inputs of the classifier's last linear layer, one tensor per call inside the block."""
    seen: list[Tensor] = []
    parts = classifier.modules() if isinstance(classifier, nn.Module) else ()
    linear = [part for part in parts if isinstance(part, nn.Linear)]
    if not linear:
        yield seen
        return
    handle = linear[-1].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        yield seen
    finally:
        handle.remove()


class LookAlike(ViewGoal):
    """Minus the squared distances of Π', Π and their features to those of a guide: an image of the `rank`-th class."""

    def __init__(
        self,
        defense: Any,
        images: Tensor,
        labels: Tensor,
        *,
        level: Level,
        rank: int,
        guides: Tensor,
        guide_labels: Tensor,
    ) -> None:
        super().__init__(defense, labels, level, "Match")
        with torch.no_grad():
            here, known = defense.evidence(images), guides_seen(defense, guides, guide_labels)
            wanted = other_class(here.post_logits, labels, rank)
            # The nearest guide that the defence itself gives to the wanted class.
            apart = torch.cdist(here.post_logits, known[0])
            apart[wanted[:, None] != known[2][None, :]] = float("inf")
            # No guide of that class: the nearest of any other class than the label.
            other = torch.cdist(here.post_logits, known[0])
            other[labels[:, None] == known[2][None, :]] = float("inf")
            apart = torch.where(apart.isinf().all(1, keepdim=True), other, apart)
            chosen = apart.argmin(1)
        self.logits, self.features = known[0][chosen], None if known[1] is None else known[1][chosen]

    def follow(self, first: Any) -> None:
        """The same guide for every draw."""
        self.logits, self.features = first.logits, first.features

    def loss(self, images: Tensor) -> Tensor:
        """Minus the distances, features scaled to count as much as logits."""
        with features(self.view.twin.classifier) as inner:
            seen = self.view.evidence(images)
        far = (seen.pre_logits - self.logits).square().sum(1) + (seen.post_logits - self.logits).square().sum(1)
        if self.features is not None:
            size = self.features.flatten(1).square().sum(1).clamp_min(1e-6)
            scale = self.logits.square().sum(1)
            for tensor in inner:
                far = far + scale * (tensor - self.features).flatten(1).square().sum(1) / size
        return -far


def guides_seen(defense: Any, guides: Tensor, labels: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
    """Logits, features and classes of the guides that the defence accepts and gives their own class."""
    decision = defense.decide(guides)
    good = decision.accepted & ~decision.flagged & (decision.label == labels.to(decision.label.device))
    if not bool(good.any()):
        raise UsageError("Match needs guides that the defence answers rightly; it answers none of these. Give others.")
    with features(defense.classifier) as inner:
        logits: Tensor = defense.logits(guides[good])
    return logits, inner[0] if inner else None, labels[good]


class Match(AdaptiveAttack):
    """Match the logits and features of a guide, for the `targets` likeliest other classes in turn.

    guides, guide_labels: clean images that are not under attack. Without them the attacked images themselves serve,
    each as a guide for images of other classes; results then depend on which images are attacked together.
    """

    def __init__(
        self,
        *,
        guides: Tensor | None = None,
        guide_labels: Tensor | None = None,
        targets: int = 2,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        if (guides is None) != (guide_labels is None):
            raise UsageError("Match needs guides and guide_labels together, or neither.")
        self.guides, self.guide_labels, self.targets = guides, guide_labels, targets
        self._guides: tuple[Any, Any] = (guides, guide_labels)

    def __call__(self, model: Any, images: Tensor, labels: Tensor, *rest: Any, **named: Any) -> Tensor:
        """Adversarial images; the images themselves are the guides where no others are given."""
        given = self.guides is not None and self.guide_labels is not None
        self._guides = (self.guides, self.guide_labels) if given else (images, labels)
        return super().__call__(model, images, labels, *rest, **named)

    def tries(self, defense: Any) -> Iterable[Attack]:
        """Every target at each level."""
        guides, labels = self._guides
        for level in self.chosen_levels(defense):
            for rank in range(self.targets):
                make = partial(LookAlike, level=level, rank=rank, guides=guides, guide_labels=labels)
                yield self.search(make, steps=2 * self.steps, step_size=self.threat.eps / 8, shrink=True)
