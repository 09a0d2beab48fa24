"""confident: a wrong class with as much confidence as possible, so that a refusing defence sees nothing to refuse."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from alu.attacks.adaptive.base import AdaptiveAttack, ViewGoal
from alu.attacks.adaptive.view import Level, entry, other_class
from alu.attacks.base import Attack
from alu.attacks.goals import Goal

TARGETS = {"quick": 3, "standard": 5, "full": 9}
"""How many wrong classes are aimed at, the likeliest first, by budget."""


class Aimed(ViewGoal):
    """A goal that aims at one wrong class: the one whose logit on the clean image has this rank among the others."""

    rows = ("labels", "target")

    def __init__(self, defense: Any, images: Tensor, labels: Tensor, *, level: Level, rank: int) -> None:
        super().__init__(defense, images, labels, level=level)
        with torch.no_grad():
            self.target = other_class(defense.logits(images), labels, rank)

    def answer(self, images: Tensor) -> Tensor:
        """The logits that a refusing rule answers with [N, classes]: those after purification."""
        return self.view.evidence(images).post_logits

    def nearby(self, images: Tensor) -> Tensor:
        """The classifier's logits at neighbours [N, classes]: a defence that searches around the image has no purifier,
        and rounding may leave a neighbour a hair outside [0, 1]."""
        logits: Tensor = self.view.twin.logits(images)
        return logits

    def log_probability(self, logits: Tensor) -> Tensor:
        """log p of the target [N]."""
        return entry(logits.log_softmax(1), self.target)

    def margin(self, logits: Tensor) -> Tensor:
        """The target's logit minus the highest other one [N]."""
        return entry(logits, self.target) - logits.scatter(1, self.target[:, None], float("-inf")).amax(1)


class Probable(Aimed):
    """log p of the target."""

    def loss(self, images: Tensor) -> Tensor:
        """log p of the target."""
        return self.log_probability(self.answer(images))


class Ahead(Aimed):
    """The target's margin: it keeps growing where the probability is already 1."""

    def loss(self, images: Tensor) -> Tensor:
        """The target's logit minus the highest other one."""
        return self.margin(self.answer(images))


class TargetedAttack(AdaptiveAttack):
    """Base of the attacks that aim at one wrong class after another. A subclass lists its `goals`.

    Parameters
    ----------
    targets
        How many wrong classes are aimed at; by default 3, 5 or 9, by budget; plus those of `AdaptiveAttack`.

    Examples
    --------
    >>> issubclass(alu.attacks.adaptive.Confident, alu.attacks.adaptive.TargetedAttack)
    True
    """

    def __init__(self, *, targets: int | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.targets = TARGETS[self.budget] if targets is None else targets

    @abstractmethod
    def goals(self, defense: Any) -> Sequence[Callable[..., Goal]]:
        """The goals, each of which also takes `level` and `rank`."""

    def tries(self, defense: Any) -> Iterable[Attack]:
        """Every goal at every level, for every target."""
        for level in self.chosen_levels(defense):
            for goal in self.goals(defense):
                for rank in range(self.targets):
                    yield self.search(partial(goal, level=level, rank=rank), shrink=True)


class Confident(TargetedAttack):
    """Targeted PGD on the probability and on the margin of each likely wrong class. Parameters: `TargetedAttack`.

    Examples
    --------
    >>> adversarial = alu.attacks.adaptive.Confident(steps=1, targets=1)(defense, images, labels)
    """

    def goals(self, defense: Any) -> Sequence[Callable[..., Goal]]:
        """By probability, then by margin."""
        return (Probable, Ahead)
