"""pattern: the paper's "rare" case 3, made on purpose: another logit rises, the true one does not fall."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from alu.attacks.adaptive.base import AdaptiveAttack, ViewGoal
from alu.attacks.adaptive.view import Level, View, entry, other_class, require_evidence
from alu.attacks.base import Attack


class RaiseOther(ViewGoal):
    """Π'_a of the `rank`-th other class, minus `penalty` times what Π'_y lacks to `slack` above its clean value.

    With `strict`, only a wrong answer in case 3 is a success.
    """

    def __init__(
        self, defense: Any, images: Tensor, labels: Tensor, *, penalty: float, rank: int, slack: float, strict: bool
    ) -> None:
        super().__init__(defense, labels, Level("bpda"), "Pattern")
        self.penalty, self.strict = penalty, strict
        with torch.no_grad():
            self.clean = self.view.before(images)
        self.other = other_class(self.clean, labels, rank)
        self.own = entry(self.clean, labels) + slack

    def follow(self, first: Any) -> None:
        """The same other class for every draw."""
        self.other = first.other

    def loss(self, images: Tensor) -> Tensor:
        """The other logit, less the penalty."""
        logits = self.view.before(images)
        return entry(logits, self.other) - self.penalty * (self.own - entry(logits, self.labels)).clamp_min(0)

    def reached(self, images: Tensor) -> Tensor:
        """Whether the deployed answer is accepted and wrong, if `strict` in case 3 [N]."""
        wrong = super().reached(images)
        return wrong & self.rare(images) if self.strict else wrong

    def rare(self, images: Tensor) -> Tensor:
        """Whether Π' changed as in case 3 [N]."""
        with torch.no_grad():
            return case_three(self.clean, self.view.before(images), self.labels)


class Pattern(AdaptiveAttack):
    """Raise a runner-up while the true logit is held up by penalties of growing weight.

    Sign steps overshoot: without `slack`, the true logit hovers about its clean value and ends below it half the time.
    An image that is answered wrongly in another case goes on through all tries, and is kept if none does better.
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
        """All searches that ask for case 3, then those that take any wrong answer."""
        return [*self._searches(strict=True), *self._searches(strict=False)]

    def _searches(self, *, strict: bool) -> Iterable[Attack]:
        """Every penalty for every target, the strictest first: it is the case that is asked for."""
        for rank in range(self.targets):
            for penalty in sorted(self.penalties, reverse=True):
                yield self.search(partial(RaiseOther, penalty=penalty, rank=rank, slack=self.slack, strict=strict))

    def run(self, model: Any, images: Tensor, labels: Tensor, numbers: Sequence[int]) -> Tensor:
        """For each image the first try that is wrong in case 3, else the first that is wrong, else the last one."""
        require_evidence(model, type(self).__name__)
        self.meet(model)
        view = View(model, Level("bpda"), type(self).__name__)
        with torch.no_grad():
            clean = view.before(images)
        found, broken = images.clone(), self.fallen(model, images, labels)
        rare = broken.clone()
        for strict, done in ((True, rare), (False, broken)):
            for attack in self.rounds(partial(self._searches, strict=strict)):
                left = (~done).nonzero().flatten()
                if not len(left):
                    break
                named = [numbers[place] for place in left.tolist()]
                tried = self._allowed(attack(model, images[left], labels[left], numbers=named), images[left])
                wrong = self.fallen(model, tried, labels[left])
                with torch.no_grad():
                    won = wrong & case_three(clean[left], view.before(tried), labels[left])
                better = won | ~broken[left]
                found[left[better]] = tried[better]
                broken[left] |= wrong
                rare[left] |= won
        return found


def case_three(clean: Tensor, attacked: Tensor, labels: Tensor) -> Tensor:
    """Whether the true logit did not fall while the answer's rose [N]: logits of the bare classifier before, after."""
    answer = attacked.argmax(1)
    held = entry(attacked, labels) >= entry(clean, labels)
    rose = entry(attacked, answer) > entry(clean, answer)
    return held & rose & (answer != labels)
