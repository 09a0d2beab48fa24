"""query: no gradient at all. Square on the soft output, a hard-label search, both on a twin with few steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from alu.attacks.adaptive.base import AdaptiveAttack
from alu.attacks.adaptive.soft import OnSoft, SoftOutput, soft_as_deployed
from alu.attacks.adaptive.transfer import OnAnother
from alu.attacks.adaptive.view import Level, score_matters, twin
from alu.attacks.base import Attack


class Query(AdaptiveAttack):
    """Square on the soft output and HopSkipJump on the hard label of a twin with at most `twin_steps` latent steps.

    Both are judged on the deployed defence. They come from the extra `attacks`. Square asks `queries` times, by default
    500, 1,000 or 5,000 with the budget, of each of two soft outputs.
    """

    def __init__(self, *, queries: int | None = None, twin_steps: int = 5, **settings: Any) -> None:
        super().__init__(**settings)
        self.queries = {"quick": 500, "standard": 1_000, "full": 5_000}[self.budget] if queries is None else queries
        self.twin_steps = twin_steps

    def tries(self, defense: Any) -> Iterable[Attack]:
        """Square first; the hard-label search where the budget allows."""
        from alu.attacks.autoattack import Square
        from alu.attacks.decision_based import HopSkipJump

        same = self.common
        level = Level("blind", self.twin_steps)
        for number, temperature in enumerate((0.05, 1.0)):
            deeper = soft_as_deployed(defense, level, temperature)
            # Where no score is read both outputs are the same: the second run then draws other numbers.
            seed = self.seed if score_matters(defense) else self.seed + number
            square = Square(queries=self.queries, **{**same, "seed": seed})
            yield OnSoft(SoftOutput(defense, level, temperature), square, deeper)
        if self.budget != "quick":
            yield OnAnother(twin(defense, level), HopSkipJump(**same), defense)
