"""confident: a wrong class with as much confidence as possible, so that a refusing defence sees nothing to refuse."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from alu.attacks.adaptive.base import AdaptiveAttack, ViewGoal
from alu.attacks.adaptive.view import Level, entry, other_class
from alu.attacks.base import Attack

TARGETS = {"quick": 3, "standard": 5, "full": 9}
"""How many wrong classes are aimed at, the likeliest first, by budget."""


class Aimed(ViewGoal):
    """A goal that aims at one wrong class: the one whose logit on the clean image has this rank among the others."""

    def __init__(self, defense: Any, images: Tensor, labels: Tensor, *, rank: int) -> None:
        super().__init__(defense, images, labels, level=Level())
        with torch.no_grad():
            self.target = other_class(defense.logits(images), labels, rank)

    def log_probability(self, images: Tensor) -> Tensor:
        """log p of the target [N]."""
        return entry(self.view.before(images).log_softmax(1), self.target)

    def loss(self, images: Tensor) -> Tensor:
        """log p of the target."""
        return self.log_probability(images)


class AimedMargin(Aimed):
    """The margin of the target over all other classes: it keeps growing where the probability is already 1."""

    def loss(self, images: Tensor) -> Tensor:
        """The target's logit minus the highest other one."""
        logits = self.view.before(images)
        return entry(logits, self.target) - logits.scatter(1, self.target[:, None], float("-inf")).amax(1)


class Confident(AdaptiveAttack):
    """Targeted PGD on the probability and on the margin of each likely wrong class.

    Parameters
    ----------
    targets
        How many wrong classes are aimed at; by default 3, 5 or 9, by budget; plus those of `AdaptiveAttack`.

    Examples
    --------
    >>> adversarial = alu.attacks.adaptive.Confident(steps=1, targets=1)(defense, images, labels)
    """

    def __init__(self, *, targets: int | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.targets = TARGETS[self.budget] if targets is None else targets

    def tries(self, defense: Any) -> Iterable[Attack]:
        """Every target, by probability and by margin."""
        for rank in range(self.targets):
            for goal in (Aimed, AimedMargin):
                yield self.search(partial(goal, rank=rank), shrink=True)
