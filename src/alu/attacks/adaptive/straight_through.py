"""straight-through: a wrong class at the image and at the worst neighbour of it that a search finds."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from torch import Tensor

from alu.attacks.adaptive.base import AdaptiveAttack
from alu.attacks.adaptive.confident import TARGETS, Aimed
from alu.attacks.adaptive.view import entry, require_search
from alu.attacks.base import Attack


class HeldAround(Aimed):
    """log p of the target at the image, and at the neighbour where it is least: that moves with the image."""

    def __init__(self, defense: Any, images: Tensor, labels: Tensor, *, rank: int, weight: float = 1.0) -> None:
        super().__init__(defense, images, labels, rank=rank)
        self.weight = weight

    def loss(self, images: Tensor) -> Tensor:
        """The weighted sum; the neighbour's offset is a constant."""
        evidence = self.view.evidence(images)
        worst = self.view.twin.detector.find(evidence, self.target, stop=False)
        around = self.log_probability(images + (worst - images.detach()))
        return entry(evidence.post_logits.log_softmax(1), self.target) + self.weight * around


class StraightThrough(AdaptiveAttack):
    """PGD on the probability of each likely wrong class at the image and at its worst neighbour (Chen et al. 2023).

    Parameters
    ----------
    targets
        How many wrong classes are aimed at; by default 3, 5 or 9, depending on the budget.
    weights
        How much the neighbour counts; plus those of `AdaptiveAttack`.

    Examples
    --------
    >>> check = alu.Defense(classifier, detector=alu.detectors.Neighbourhood(steps=1), rule="abstain")
    >>> adversarial = alu.attacks.adaptive.StraightThrough(steps=1, targets=1)(check, images, labels)
    """

    def __init__(self, *, targets: int | None = None, weights: tuple[float, ...] = (1.0, 4.0), **settings: Any) -> None:
        super().__init__(**settings)
        self.targets, self.weights = TARGETS[self.budget] if targets is None else targets, weights

    def tries(self, defense: Any) -> Iterable[Attack]:
        """Every target with every weight."""
        require_search(defense, type(self).__name__)
        for weight in self.weights:
            for rank in range(self.targets):
                yield self.search(partial(HeldAround, rank=rank, weight=weight), shrink=True)
