"""decoy: lower the logit of a wrong label, so that purification raises it and argmax Δ is that label."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from alu.attacks.adaptive.base import AdaptiveAttack, ViewGoal
from alu.attacks.adaptive.view import Level, other_class, without_post_gradient
from alu.attacks.base import Attack
from alu.attacks.goals import cross_entropy, margin


class WrongLabel(ViewGoal):
    """The paper's own attack, called with a wrong label: the cross-entropy of Π' at the `rank`-th other class."""

    rows = ("labels", "wrong")

    def __init__(self, defense: Any, images: Tensor, labels: Tensor, *, rank: int) -> None:
        super().__init__(defense, images, labels, level=Level("bpda"))
        with torch.no_grad():
            self.wrong = other_class(self.view.before(images), labels, rank)

    def follow(self, first: Any) -> None:
        """The same wrong label for every draw."""
        self.wrong = first.wrong

    def loss(self, images: Tensor) -> Tensor:
        """The cross-entropy of the wrong label."""
        return cross_entropy(self.view.before(images), self.wrong)


class WrongRise(ViewGoal):
    """m(Δ, y) with a score above the threshold; without `through`, Π is recomputed at each step but a constant."""

    def __init__(self, defense: Any, images: Tensor, labels: Tensor, *, level: Level, through: bool) -> None:
        super().__init__(defense, images, labels, level=level)
        self.through = through

    def loss(self, images: Tensor) -> Tensor:
        """The margin of Δ, minus how far the score is below the threshold."""
        evidence = self.view.evidence(images)
        if not self.through:
            evidence = without_post_gradient(evidence)
        return margin(evidence.change, self.labels) - self.view.shortfall(evidence)


class Decoy(AdaptiveAttack):
    """Makes another logit rise most: (a) PGD called with a wrong label; (b) the margin of Δ with a score above the
    threshold, Π recomputed at each step but not differentiated; (c) the same with the gradient of the purifier.

    Parameters
    ----------
    targets
        How many of the likeliest wrong labels (a) tries; plus those of `AdaptiveAttack`.

    Examples
    --------
    >>> adversarial = alu.attacks.adaptive.Decoy(steps=1, targets=1)(defense, images, labels)
    """

    def __init__(self, *, targets: int = 3, **settings: Any) -> None:
        super().__init__(**settings)
        self.targets = targets

    def tries(self, defense: Any) -> Iterable[Attack]:
        """(a) for each target, then (b) and (c) at each level."""
        for rank in range(self.targets):
            yield self.search(partial(WrongLabel, rank=rank), keep="last")
        # Π is not differentiated, so that even the deployed number of steps costs only forward passes.
        yield self.search(partial(WrongRise, level=Level("bpda"), through=False))
        for level in self.chosen_levels(defense):
            yield self.search(partial(WrongRise, level=level, through=True))
