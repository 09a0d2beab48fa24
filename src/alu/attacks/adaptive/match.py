"""match: imitate a clean image of another class before and after purification, so that the logits hardly change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from alu.attacks.adaptive.base import AdaptiveAttack, ViewGoal
from alu.attacks.adaptive.view import Level, other_class
from alu.attacks.base import Attack
from alu.errors import UsageError

Usable = tuple[Tensor, Tensor | None, Tensor]
"""Logits, features (where there is a linear layer) and classes of guides."""


@contextmanager
def features(classifier: object) -> Iterator[list[Tensor]]:
    """The inputs of the classifier's last linear layer, one tensor per call inside the block."""
    captured: list[Tensor] = []
    parts = classifier.modules() if isinstance(classifier, nn.Module) else ()
    linear = [part for part in parts if isinstance(part, nn.Linear)]
    if not linear:
        yield captured
        return
    handle = linear[-1].register_forward_pre_hook(lambda _, inputs: captured.append(inputs[0]))
    try:
        yield captured
    finally:
        handle.remove()


class LookAlike(ViewGoal):
    """Minus the squared distances of Π', Π and their features to those of a guide: an image of the `rank`-th class."""

    rows = ("labels", "logits", "features")

    def __init__(
        self, defense: Any, images: Tensor, labels: Tensor, *, level: Level, rank: int, guides: Tensor,
        guide_labels: Tensor, usable: Callable[..., Usable] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(defense, images, labels, level=level)
        with torch.no_grad():
            own = defense.evidence(images).post_logits
            logits, inner, classes = (usable or usable_guides)(defense, guides, guide_labels)
            target = other_class(own, labels, rank)
            # The nearest guide of the target class.
            distance = torch.cdist(own, logits)
            distance[target[:, None] != classes[None, :]] = float("inf")
            # If there is none, the nearest guide of any class but the label.
            other = torch.cdist(own, logits)
            other[labels[:, None] == classes[None, :]] = float("inf")
            chosen = torch.where(distance.isinf().all(1, keepdim=True), other, distance).argmin(1)
        self.logits, self.features = logits[chosen], None if inner is None else inner[chosen]

    def follow(self, first: Any) -> None:
        """The same guide for every draw."""
        self.logits, self.features = first.logits, first.features

    def loss(self, images: Tensor) -> Tensor:
        """Minus the distances, with features scaled to count as much as logits."""
        with features(self.view.twin.classifier) as inner:
            evidence = self.view.evidence(images)
        distance = (evidence.pre_logits - self.logits).square().sum(1)
        distance = distance + (evidence.post_logits - self.logits).square().sum(1)
        if self.features is not None:
            size = self.features.flatten(1).square().sum(1).clamp_min(1e-6)
            scale = self.logits.square().sum(1)
            for tensor in inner:
                distance = distance + scale * (tensor - self.features).flatten(1).square().sum(1) / size
        return -distance


def usable_guides(defense: Any, guides: Tensor, labels: Tensor) -> Usable:
    """Logits, features and classes of the guides that the defence accepts and answers correctly."""
    decision = defense.decide(guides)
    good = decision.accepted & ~decision.flagged & (decision.label == labels.to(decision.label.device))
    if not bool(good.any()):
        raise UsageError("Match needs guides that the defence answers correctly; here it answers none. Pass others.")
    with features(defense.classifier) as inner:
        logits: Tensor = defense.logits(guides[good])
    return logits, inner[0] if inner else None, labels[good]


class Match(AdaptiveAttack):
    """Matches the logits and features of a guide, a clean image of another class.

    Parameters
    ----------
    guides, guide_labels
        Clean images that are not under attack, and their classes. By default the attacked images guide each other;
        results then depend on which images are attacked together.
    targets
        How many of the likeliest other classes are tried; plus those of `AdaptiveAttack`.

    Examples
    --------
    >>> adversarial = alu.attacks.adaptive.Match(steps=1, targets=1)(defense, images, labels)
    """

    def __init__(
        self, *, guides: Tensor | None = None, guide_labels: Tensor | None = None, targets: int = 2, **settings: Any
    ) -> None:
        super().__init__(**settings)
        if (guides is None) != (guide_labels is None):
            raise UsageError("Match needs guides and guide_labels together, or neither.")
        self.guides, self.guide_labels, self.targets = guides, guide_labels, targets
        self._guides: tuple[Any, Any] = (guides, guide_labels)

    def __call__(self, model: Any, images: Tensor, labels: Tensor, *rest: Any, **named: Any) -> Tensor:
        """Adversarial images; the images themselves are the guides if no others were given."""
        self._guides = (images, labels) if self.guides is None else (self.guides, self.guide_labels)
        return super().__call__(model, images, labels, *rest, **named)

    def tries(self, defense: Any) -> Iterable[Attack]:
        """Every target at each level."""
        guides, labels = self._guides
        known: list[Usable] = []

        def usable(drawn: Any, *given: Tensor) -> Usable:
            """The guides of the deployed draw are asked for once, not for every try."""
            if drawn is not defense:
                return usable_guides(drawn, *given)
            known[:] = known or [usable_guides(defense, *given)]
            return known[0]

        for level in self.chosen_levels(defense):
            for rank in range(self.targets):
                make = partial(LookAlike, level=level, rank=rank, guides=guides, guide_labels=labels, usable=usable)
                yield self.search(make, steps=2 * self.steps, step_size=self.threat.eps / 8, shrink=True)
