"""straight-through: a wrong class at the image and at the worst neighbour of it that a search finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import Tensor

from alu.attacks.adaptive.confident import Aimed, TargetedAttack
from alu.attacks.adaptive.view import require_search
from alu.attacks.goals import Goal


class HeldAround(Aimed):
    """log p of the target at the image, and `weight` times that at the neighbour where it is least."""

    def __init__(self, *arguments: Any, weight: float, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.weight = weight

    def loss(self, images: Tensor) -> Tensor:
        """The weighted sum; the neighbour's offset from the image is a constant."""
        evidence = self.view.evidence(images)
        worst = self.view.twin.detector.find(evidence, self.target, stop=False)
        around = self.nearby(images + (worst - images.detach()))
        return self.log_probability(evidence.post_logits) + self.weight * self.log_probability(around)


class StraightThrough(TargetedAttack):
    """PGD on the probability of each likely wrong class at the image and at its worst neighbour (Chen et al. 2023).

    Parameters
    ----------
    weights
        How much the neighbour counts; plus those of `TargetedAttack`.

    Examples
    --------
    >>> check = alu.Defense(classifier, detector=alu.detectors.Neighbourhood(steps=1), rule="abstain")
    >>> adversarial = alu.attacks.adaptive.StraightThrough(steps=1, targets=1)(check, images, labels)
    """

    def __init__(self, *, weights: tuple[float, ...] = (1.0, 4.0), **settings: Any) -> None:
        super().__init__(**settings)
        self.weights = weights

    def goals(self, defense: Any) -> Sequence[Callable[..., Goal]]:
        """One for each weight."""
        require_search(defense, type(self).__name__)
        return [partial(HeldAround, weight=weight) for weight in self.weights]
