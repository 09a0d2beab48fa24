"""pattern: the paper's "rare" case 3 on purpose: another logit rises, the true one does not fall."""

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
    """Π' of the `rank`-th other class, minus `penalty` times how far Π'_y is below its clean value plus `slack`.

    With `strict`, only a wrong answer in case 3 is a success.
    """

    rows = ("labels", "clean", "other", "own")

    def __init__(
        self, defense: Any, images: Tensor, labels: Tensor, *, penalty: float, rank: int, slack: float, strict: bool
    ) -> None:
        super().__init__(defense, images, labels, level=Level("bpda"))
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
        """Whether the deployed answer is accepted and wrong and, if `strict`, of case 3 [N]."""
        wrong = super().reached(images)
        if not self.strict:
            return wrong
        with torch.no_grad():
            return wrong & case_three(self.clean, self.view.before(images), self.labels)


class Pattern(AdaptiveAttack):
    """Raises another logit while a penalty keeps the true logit from falling.

    An image that is answered wrongly, but not in case 3, goes through all tries and is kept if none does better.

    Parameters
    ----------
    penalties, targets
        Weights of the penalty, and how many of the likeliest other classes are tried.
    slack
        How far above its clean value the true logit is held: sign steps overshoot, and without slack it ends below half
        of the time; plus those of `AdaptiveAttack`.

    Examples
    --------
    >>> adversarial = alu.attacks.adaptive.Pattern(steps=1, targets=1)(defense, images, labels)
    """

    def __init__(
        self, *, penalties: Sequence[float] = (1.0, 10.0, 100.0), targets: int = 2, slack: float = 4.0, **settings: Any
    ) -> None:
        super().__init__(**settings)
        self.penalties, self.targets, self.slack = tuple(penalties), targets, slack

    def tries(self, defense: Any) -> Iterable[Attack]:
        """All searches for case 3, then those for any wrong answer."""
        return [*self._searches(strict=True), *self._searches(strict=False)]

    def _searches(self, *, strict: bool) -> Iterable[Attack]:
        """Every penalty for every target; the largest penalty first, because it is the most likely to give case 3."""
        for rank in range(self.targets):
            for penalty in sorted(self.penalties, reverse=True):
                yield self.search(partial(RaiseOther, penalty=penalty, rank=rank, slack=self.slack, strict=strict))

    def run(self, model: Any, images: Tensor, labels: Tensor, numbers: Sequence[int]) -> Tensor:
        """For each image the first wrong answer of case 3, else the first wrong answer, else the last try."""
        require_evidence(model, type(self).__name__)
        self.inspect(model)
        view = View(model, Level("bpda"))
        with torch.no_grad():
            clean = view.before(images)
        adversarial, broken = images.clone(), self.broken(model, images, labels)
        in_case = broken.clone()
        for strict, done in ((True, in_case), (False, broken)):
            for attack in self.rounds(partial(self._searches, strict=strict)):
                left = (~done).nonzero().flatten()
                if not len(left):
                    break
                chosen_numbers = [numbers[place] for place in left.tolist()]
                candidates = attack(model, images[left], labels[left], numbers=chosen_numbers)
                candidates = self._allowed(candidates, images[left])
                wrong = self.broken(model, candidates, labels[left])
                with torch.no_grad():
                    wrong_in_case = wrong & case_three(clean[left], view.before(candidates), labels[left])
                better = wrong_in_case | ~broken[left]
                adversarial[left[better]] = candidates[better]
                broken[left] |= wrong
                in_case[left] |= wrong_in_case
        return adversarial


def case_three(clean: Tensor, attacked: Tensor, labels: Tensor) -> Tensor:
    """Whether the attack is of the paper's case 3 [N]: the true logit did not fall, while the wrong answer's rose.

    Parameters
    ----------
    clean, attacked
        The classifier's logits for the clean and for the attacked images [N, classes].
    labels
        The true classes.

    Examples
    --------
    >>> alu.attacks.adaptive.case_three(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 2.0]]), torch.tensor([0]))
    tensor([True])
    """
    answer = attacked.argmax(1)
    held = entry(attacked, labels) >= entry(clean, labels)
    rose = entry(attacked, answer) > entry(clean, answer)
    return held & rose & (answer != labels)
