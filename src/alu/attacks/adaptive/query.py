"""query: attacks without gradients, on a twin of the defence with few steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from alu.attacks.adaptive.base import AdaptiveAttack
from alu.attacks.adaptive.soft import OnSoft, SoftOutput, soft_as_deployed
from alu.attacks.adaptive.transfer import OnAnother
from alu.attacks.adaptive.view import Level, score_matters, twin
from alu.attacks.autoattack import Square
from alu.attacks.base import Attack
from alu.attacks.decision_based import HopSkipJump


class Query(AdaptiveAttack):
    """Square on the soft output and HopSkipJump on the predicted label of a twin of the defence with few steps.

    Success is judged on the deployed defence. Both need the extra `attacks`.

    Parameters
    ----------
    queries
        Calls of Square on each of two soft outputs; by default 500, 1,000 or 5,000, depending on the budget.
    twin_steps
        The largest number of latent steps of the twin; plus those of `AdaptiveAttack`.

    Examples
    --------
    >>> adversarial = alu.attacks.adaptive.Query(queries=2, budget="quick")(defense, images, labels)
    """

    def __init__(self, *, queries: int | None = None, twin_steps: int = 5, **settings: Any) -> None:
        super().__init__(**settings)
        self.queries = {"quick": 500, "standard": 1_000, "full": 5_000}[self.budget] if queries is None else queries
        self.twin_steps = twin_steps

    def tries(self, defense: Any) -> Iterable[Attack]:
        """Square first; then HopSkipJump, unless the budget is "quick"."""
        same = self.common
        level = Level("blind", self.twin_steps)
        for number, temperature in enumerate((0.05, 1.0)):
            deeper = soft_as_deployed(defense, level, temperature)
            # If the rule does not use the score, both outputs are the same: the second run then gets another seed.
            seed = self.seed if score_matters(defense) else self.seed + number
            square = Square(queries=self.queries, **{**same, "seed": seed})
            yield OnSoft(SoftOutput(defense, level, temperature), square, deeper)
        if self.budget != "quick":
            yield OnAnother(twin(defense, level), HopSkipJump(**same), defense)
