"""boost: make the true class look surer. Purification takes the boost back, so the true logit falls most."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from torch import Tensor

from alu.attacks.adaptive.base import AdaptiveAttack, ViewGoal
from alu.attacks.adaptive.view import Level, entry
from alu.attacks.base import Attack
from alu.decision import Evidence


class Raise(ViewGoal):
    """Π'_y above the mean of the others, and, where `hinged`, a score above the threshold, so that Δ decides."""

    def __init__(self, defense: Any, images: Tensor, labels: Tensor, *, level: Level, hinged: bool) -> None:
        super().__init__(defense, labels, level, "Boost")
        self.hinged = hinged

    def loss(self, images: Tensor) -> Tensor:
        """Lead of the true logit minus what the score lacks."""
        if not self.hinged:
            return lead(self.view.before(images), self.labels)
        seen = self.view.evidence(images)
        fixed = Evidence(seen.images, seen.purified.detach(), seen.pre_logits, seen.post_logits.detach())
        lack = (0.05 * self.view.room(fixed) - self.view.excess(fixed)).clamp_min(0)
        return lead(seen.pre_logits, self.labels) - lack


def lead(logits: Tensor, labels: Tensor) -> Tensor:
    """The label's logit above the mean of the others [N]."""
    own = entry(logits, labels)
    return own - (logits.sum(1) - own) / (logits.shape[1] - 1)


class Boost(AdaptiveAttack):
    """Raise the true logit: first on Π' alone, then with the threshold in sight (Π refreshed at every step)."""

    def tries(self, defense: Any) -> Iterable[Attack]:
        """Without the hinge, then with it at each level."""
        yield self.search(partial(Raise, level=Level("bpda"), hinged=False))
        for level in self.chosen_levels(defense):
            yield self.search(partial(Raise, level=level, hinged=True))
