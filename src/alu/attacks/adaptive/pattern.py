"""pattern: the paper's "rare" case 3, made on purpose: another logit rises, the true one does not fall."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from alu.attacks.adaptive.base import AdaptiveAttack, ViewGoal
from alu.attacks.adaptive.view import Level, entry, other_class
from alu.attacks.base import Attack


class RaiseOther(ViewGoal):
    """Π'_a of the `rank`-th other class, minus `penalty` times what Π'_y lacks to `slack` above its clean value."""

    def __init__(
        self, defense: Any, images: Tensor, labels: Tensor, *, penalty: float, rank: int, slack: float
    ) -> None:
        super().__init__(defense, labels, Level("bpda"), "Pattern")
        self.penalty = penalty
        with torch.no_grad():
            clean = self.view.before(images)
        self.other = other_class(clean, labels, rank)
        self.own = entry(clean, labels) + slack

    def loss(self, images: Tensor) -> Tensor:
        """The other logit, less the penalty."""
        logits = self.view.before(images)
        return entry(logits, self.other) - self.penalty * (self.own - entry(logits, self.labels)).clamp_min(0)


class Pattern(AdaptiveAttack):
    """Raise a runner-up while the true logit is held up by penalties of growing weight.

    Sign steps overshoot: without `slack`, the true logit hovers about its clean value and ends below it half the time.
    """

    def __init__(
        self,
        *,
        penalties: Sequence[float] = (1.0, 10.0, 100.0),
        targets: int = 2,
        slack: float = 4.0,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.penalties, self.targets, self.slack = tuple(penalties), targets, slack

    def tries(self, defense: Any) -> Iterable[Attack]:
        """Every penalty for every target, the strictest first: it is the case that is asked for."""
        for rank in range(self.targets):
            for penalty in sorted(self.penalties, reverse=True):
                yield self.search(partial(RaiseOther, penalty=penalty, rank=rank, slack=self.slack))


def case_three(clean: Tensor, attacked: Tensor, labels: Tensor) -> Tensor:
    """Whether the true logit did not fall while the answer's rose [N]: logits of the bare classifier before, after."""
    answer = attacked.argmax(1)
    held = entry(attacked, labels) >= entry(clean, labels)
    rose = entry(attacked, answer) > entry(clean, answer)
    return held & rose & (answer != labels)
