"""AdaptiveAttack: several tries in a row, each on the images that the deployed defence still answers rightly."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Unpack

import torch
from torch import Tensor

from alu.attacks.adaptive.view import GoalMaker, Level, View, levels, require_evidence
from alu.attacks.base import LEFT_OUT, Attack, Common
from alu.attacks.copies import RESUBMISSIONS, draws_of
from alu.attacks.goals import Goal, fooled
from alu.attacks.gradient import GradientAttack
from alu.errors import NoGradientError, check_choice

RESTARTS = {"quick": 1, "standard": 1, "full": 3}
"""Random starts of each search, by budget."""
DRAWS = {"quick": 4, "standard": 10, "full": 20}
"""Draws of a random defence behind each gradient, by budget."""


class AdaptiveAttack(Attack):
    """An attack on a defence by somebody who knows all of it.

    A subclass lists its `tries`, cheap ones first. After each try the deployed, hard decision is asked afresh, and only
    images that are still right go on; the others keep the image that broke them. `levels` are the gradients to try and
    `restarts` how often each search begins anew; without them, as `budget` has it. Gradients are averaged over `draws`
    of a defence that answers at random; without them, over as many as the budget has if it declares itself random.
    """

    def __init__(
        self,
        *,
        steps: int = 20,
        budget: str = "standard",
        levels: Sequence[Level] | None = None,
        restarts: int | None = None,
        draws: int | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(**common)
        check_choice("budget", budget, RESTARTS)
        self.steps, self.budget, self.levels, self.draws = steps, budget, levels, draws
        self.restarts = RESTARTS[budget] if restarts is None else restarts
        self._random = False
        self._now: int | None = None

    @abstractmethod
    def tries(self, defense: Any) -> Iterable[Attack]:
        """The searches to make, in order."""

    def last_tries(self, defense: Any) -> Iterable[Attack]:
        """Attacks of a length that no setting changes, made when all else has failed."""
        return ()

    def run(self, model: Any, images: Tensor, labels: Tensor, numbers: Sequence[int]) -> Tensor:
        """For each image the first try that the deployed defence gets wrong, else the last one."""
        require_evidence(model, type(self).__name__)
        self.meet(model)
        found = images.clone()
        standing = (~self.fallen(model, images, labels)).nonzero().flatten()
        made, refused = 0, None
        for attack in self.rounds(lambda: chain(self.tries(model), self.last_tries(model))):
            if not len(standing):
                return found
            named = [numbers[position] for position in standing.tolist()]
            try:
                tried = attack(model, images[standing], labels[standing], numbers=named)
            except NoGradientError as error:  # what one try cannot do another may
                self.note([f"{LEFT_OUT}{error}"])
                refused = error
                continue
            made += 1
            self.note(attack.flags_)
            found[standing] = tried = self._allowed(tried, images[standing])
            standing = standing[~self.fallen(model, tried, labels[standing])]
        if refused is not None and not made:
            raise refused
        return found

    def meet(self, defense: Any) -> None:
        """Note whether the defence declares itself random; before anything is searched."""
        self._random = bool(getattr(getattr(defense, "traits", None), "stochastic", False))

    @property
    def averaged(self) -> int:
        """Over how many draws gradients are averaged, when those of one draw have had their turn."""
        return self.draws or (DRAWS[self.budget] if self._random else 1)

    @property
    def drawn(self) -> int:
        """Over how many draws a gradient is averaged now."""
        return self._now or self.averaged

    def rounds(self, tries: Callable[[], Iterable[Attack]]) -> Iterator[Attack]:
        """All tries, on the deployed draw and then, on a random defence, averaged: one draw is sharper, many last."""
        try:
            for draws in dict.fromkeys((1, self.averaged)):
                self._now = draws
                yield from tries()
        finally:
            self._now = None

    def fallen(self, model: Any, images: Tensor, labels: Tensor) -> Tensor:
        """Whether the deployed answer is wrong [N]; of a random defence, any of those that it is judged by."""
        if self.averaged == 1:
            return fooled(model, images, labels)
        return torch.stack([fooled(drawn, images, labels) for drawn in draws_of(model, RESUBMISSIONS)]).any(0)

    def chosen_levels(self, defense: Any) -> list[Level]:
        """The gradients to try on this defence."""
        return list(self.levels) if self.levels is not None else levels(defense, self.budget)

    def search(self, make: GoalMaker, **settings: Any) -> Aimed:
        """A gradient search with this attack's threat, steps and seed."""
        basic: dict[str, Any] = {
            **self.common, "steps": self.steps, "keep": "fooled", "lattice": self.lattice, "restarts": self.restarts,
            "draws": self.drawn,
        }  # fmt: skip
        return Aimed(make, type(self).__name__, **{**basic, **settings})


class Aimed(GradientAttack):
    """The gradient search towards a goal that a function makes; it may start elsewhere than at the image."""

    def __init__(self, make: GoalMaker, who: str, *, begin: GoalMaker | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.make, self.who, self.begin = make, who, begin

    def goal(self, model: Any, images: Tensor, labels: Tensor) -> Goal:
        """What the function says."""
        made: Goal = self.make(model, images, labels)
        return made

    def start(self, goal: Goal, images: Tensor, numbers: Sequence[int], restart: int) -> Tensor:
        """Where `begin` leads from there, inside the ball."""
        at = super().start(goal, images, numbers, restart)
        if self.begin is None:
            return at
        begun: Tensor = self.begin(goal.model, at, goal.labels)
        return self.threat.project(begun.detach(), images)


class ViewGoal(Goal):
    """A goal whose loss reads a view of the defence, and whose success is the deployed decision's."""

    def __init__(self, defense: Any, labels: Tensor, level: Level, who: str) -> None:
        super().__init__(defense, labels)
        self.view = View(defense, level, who)

    def reached(self, images: Tensor) -> Tensor:
        """Whether the deployed answer is accepted and wrong [N]."""
        with torch.no_grad():
            return fooled(self.model, images, self.labels)
