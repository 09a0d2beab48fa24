"""decoy: write a wrong label into the picture, for the rule to read back."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from alu.attacks.adaptive.base import AdaptiveAttack, ViewGoal
from alu.attacks.adaptive.view import Level, other_class
from alu.attacks.base import Attack
from alu.attacks.goals import cross_entropy, margin
from alu.decision import Evidence


class WrongLabel(ViewGoal):
    """The paper's own attack, called with a wrong label: the cross-entropy of Π' at the `rank`-th other class."""

    def __init__(self, defense: Any, images: Tensor, labels: Tensor, *, rank: int) -> None:
        super().__init__(defense, labels, Level("bpda"), "Decoy")
        with torch.no_grad():
            self.wrong = other_class(self.view.before(images), labels, rank)

    def follow(self, first: Any) -> None:
        """The same wrong label for every draw."""
        self.wrong = first.wrong

    def loss(self, images: Tensor) -> Tensor:
        """How unlikely the wrong label looks."""
        return cross_entropy(self.view.before(images), self.wrong)


class WrongRise(ViewGoal):
    """m(Δ, y) with a score above the threshold; `through` takes the gradient of Π too, else Π is only refreshed."""

    def __init__(self, defense: Any, images: Tensor, labels: Tensor, *, level: Level, through: bool) -> None:
        super().__init__(defense, labels, level, "Decoy")
        self.through = through

    def loss(self, images: Tensor) -> Tensor:
        """The lead of the best other rise minus what the score lacks."""
        seen = self.view.evidence(images)
        if not self.through:
            seen = Evidence(seen.images, seen.purified.detach(), seen.pre_logits, seen.post_logits.detach())
        lack = (0.05 * self.view.room(seen) - self.view.excess(seen)).clamp_min(0)
        return margin(seen.change, self.labels) - lack


class Decoy(AdaptiveAttack):
    """(a) PGD with a wrong label, the `targets` likeliest ones in turn; (b) a wrong rise with Π refreshed at each step;
    (c) the same through the purifier."""

    def __init__(self, *, targets: int = 3, **settings: Any) -> None:
        super().__init__(**settings)
        self.targets = targets

    def tries(self, defense: Any) -> Iterable[Attack]:
        """(a) for each target, then (b) and (c) at each level."""
        for rank in range(self.targets):
            yield self.search(partial(WrongLabel, rank=rank), keep="last")
        # Π is not differentiated, so the deployed one costs no more than its forward steps.
        yield self.search(partial(WrongRise, level=Level("bpda"), through=False))
        for level in self.chosen_levels(defense):
            yield self.search(partial(WrongRise, level=level, through=True))
