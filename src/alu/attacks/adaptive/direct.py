"""direct: the margin of the logits that the rule uses, through the purifier. The plain white-box attack."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from torch import Tensor

from alu.attacks.adaptive.base import AdaptiveAttack, ViewGoal
from alu.attacks.base import Attack
from alu.attacks.goals import margin


class Deployed(ViewGoal):
    """The margin of the logits that `forward` returns: Π, Δ or Π', as the rule and the tests say."""

    def loss(self, images: Tensor) -> Tensor:
        """The margin."""
        return margin(self.view.answer(self.view.evidence(images)), self.labels)


class Direct(AdaptiveAttack):
    """Margin PGD on the deployed output, once for each gradient. Parameters are those of `AdaptiveAttack`.

    Examples
    --------
    >>> adversarial = alu.attacks.adaptive.Direct(steps=1)(defense, images, labels)
    """

    def tries(self, defense: Any) -> Iterable[Attack]:
        """One search per level."""
        for level in self.chosen_levels(defense):
            yield self.search(partial(Deployed, level=level))
