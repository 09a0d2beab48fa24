"""boost: raise the true logit. Purification undoes that, so that the true logit falls most and argmax Δ is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from torch import Tensor

from alu.attacks.adaptive.base import AdaptiveAttack, ViewGoal
from alu.attacks.adaptive.view import Level, entry, without_post_gradient
from alu.attacks.base import Attack


class Raise(ViewGoal):
    """Π'_y above the mean of the others and, if `hinged`, a score above the threshold, so that Δ decides."""

    def __init__(self, defense: Any, images: Tensor, labels: Tensor, *, level: Level, hinged: bool) -> None:
        super().__init__(defense, images, labels, level=level)
        self.hinged = hinged

    def loss(self, images: Tensor) -> Tensor:
        """The lead of the true logit, minus how far the score is below the threshold."""
        if not self.hinged:
            return lead(self.view.before(images), self.labels)
        evidence = self.view.evidence(images)
        return lead(evidence.pre_logits, self.labels) - self.view.shortfall(without_post_gradient(evidence))


def lead(logits: Tensor, labels: Tensor) -> Tensor:
    """The label's logit above the mean of the others [N]."""
    own = entry(logits, labels)
    return own - (logits.sum(1) - own) / (logits.shape[1] - 1)


class Boost(AdaptiveAttack):
    """Raises the true logit: first only in Π', then with a score above the threshold (Π recomputed at every step).

    Parameters are those of `AdaptiveAttack`.

    Examples
    --------
    >>> adversarial = alu.attacks.adaptive.Boost(steps=1)(defense, images, labels)
    """

    def tries(self, defense: Any) -> Iterable[Attack]:
        """Without the threshold, then with it at each level."""
        yield self.search(partial(Raise, level=Level("bpda"), hinged=False))
        for level in self.chosen_levels(defense):
            yield self.search(partial(Raise, level=level, hinged=True))
