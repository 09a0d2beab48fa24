"""query: attacks without gradients, on a twin of the defence with few steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from alu.attacks.adaptive.base import AdaptiveAttack
from alu.attacks.adaptive.soft import OnSoft, SoftOutput, soft_as_deployed
from alu.attacks.adaptive.transfer import OnAnother
from alu.attacks.adaptive.view import Level, View, other_class, score_matters, twin
from alu.attacks.autoattack import Square
from alu.attacks.base import Attack
from alu.attacks.copies import shallow
from alu.attacks.decision_based import HopSkipJump
from alu.attacks.goals import ever_fooled, fooled, margin, refuses_by_search

HELD = 1e4
"""What the true class leads by where an answer is no success: more than any wrong logit leads by."""


class Accepted(nn.Module):
    """Logits that are wrong exactly where the deployed check accepts a wrong answer; all images are of class `label`.

    Elsewhere the true class leads by `HELD` less what the likeliest wrong class leads by, so that a refusal is a
    failure that still tells how near success is. Only wrong answers cost a search. With `around` it is the least lead
    that a search of one step finds nearby.
    """

    def __init__(self, defense: Any, level: Level, *, around: bool = False) -> None:
        super().__init__()
        self.view, self.label, self.around = View(defense, level), 0, around
        self.one_step = shallow(self.view.twin.detector)
        self.one_step.steps = self.one_step.restarts = 1
        self.anchor = nn.Parameter(torch.zeros(()), requires_grad=False)

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        """Logits [N, classes], 0 but for the true class."""
        defense, evidence = self.view.defense, self.view.evidence(images)
        labels = torch.full((len(images),), self.label, device=images.device)
        ahead = margin(evidence.post_logits, labels)
        if self.around:
            target = other_class(evidence.post_logits, labels, 0)
            neighbour = self.one_step.find(evidence, target, stop=False)
            ahead = -margin(self.view.twin.logits(neighbour), target)
        asked = ever_fooled if defense.traits.stochastic else fooled
        logits = torch.zeros_like(evidence.post_logits)
        logits[:, self.label] = torch.where(asked(defense, images, labels), -HELD, HELD - ahead)
        return logits


class Query(AdaptiveAttack):
    """Square on the soft output and HopSkipJump on the predicted label of a twin of the defence with few steps.

    On a defence that refuses by a search, Square raises the lead of a wrong class until the deployed check accepts it.
    Success is judged on the deployed defence. Both need the extra `attacks`.

    Parameters
    ----------
    queries
        Calls of Square on each of two soft outputs; by default 500, 1,000 or 5,000, depending on the budget.
    twin_steps
        The largest number of latent steps of the twin.
    starts
        Images of other classes that HopSkipJump may start from; plus those of `AdaptiveAttack`.

    Examples
    --------
    >>> adversarial = alu.attacks.adaptive.Query(queries=2, budget="quick")(defense, images, labels)
    """

    def __init__(
        self, *, queries: int | None = None, twin_steps: int = 5, starts: Tensor | None = None, **settings: Any
    ) -> None:
        super().__init__(**settings)
        self.queries = {"quick": 500, "standard": 1_000, "full": 5_000}[self.budget] if queries is None else queries
        self.twin_steps, self.starts = twin_steps, starts

    def tries(self, defense: Any) -> Iterable[Attack]:
        """Square first; then HopSkipJump, unless the budget is "quick"."""
        level = Level("blind", self.twin_steps)
        yield from self._on_search(defense, level) if refuses_by_search(defense) else self._on_soft(defense, level)
        if self.budget != "quick":
            yield OnAnother(twin(defense, level), HopSkipJump(starts=self.starts, **self.common), defense)

    def _on_soft(self, defense: Any, level: Level) -> Iterable[Attack]:
        """Square on two soft outputs."""
        for number, temperature in enumerate((0.05, 1.0)):
            deeper = soft_as_deployed(defense, level, temperature)
            # If the rule does not use the score, both outputs are the same: the second run then gets another seed.
            seed = self.seed if score_matters(defense) else self.seed + number
            square = Square(queries=self.queries, **{**self.common, "seed": seed})
            yield OnSoft(SoftOutput(defense, level, temperature), square, deeper)

    def _on_search(self, defense: Any, level: Level) -> Iterable[Attack]:
        """Square on the lead of a wrong class; unless the budget is "quick", also on that at the worst neighbour."""
        for around in (False,) if self.budget == "quick" else (False, True):
            yield OnSoft(Accepted(defense, level, around=around), Square(queries=self.queries, **self.common))
