"""AdaptiveAttack: several attempts in a row, each on the images that the deployed defence still answers correctly."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, ClassVar, Unpack

from torch import Tensor

from alu.attacks.adaptive.view import Budget, GoalMaker, Level, View, levels, require_evidence
from alu.attacks.base import LEFT_OUT, Attack, Common
from alu.attacks.goals import Goal, ever_fooled, fooled, refuses_by_search
from alu.attacks.gradient import GradientAttack
from alu.errors import NoGradientError, check_choice

RESTARTS: dict[Budget, int] = {"quick": 1, "standard": 1, "full": 3}
"""Random starts of each search, by budget."""
DRAWS: dict[str, int] = {"quick": 4, "standard": 10, "full": 20}
"""Draws of a random defence that each gradient is averaged over, by budget."""


class AdaptiveAttack(Attack):
    """Base of the attacks on a defence by an opponent who knows all of it.

    A subclass lists its `tries`, cheap ones first. After each one the deployed defence decides again, and only images
    that it still answers correctly go on to the next; the others keep the image that broke them.

    Parameters
    ----------
    steps, budget
        Steps of each search; and "quick", "standard" or "full", the default of `levels`, `restarts` and `draws`.
    levels, restarts
        Which gradients are tried, and how often each search is repeated from a random start.
    draws
        How many draws of a random defence each gradient is averaged over; plus those of `Attack`.

    Examples
    --------
    >>> adversarial = alu.attacks.adaptive.Direct(steps=1, budget="quick")(defense, images, labels)
    """

    def __init__(
        self, *, steps: int = 20, budget: Budget = "standard", levels: Sequence[Level] | None = None,
        restarts: int | None = None, draws: int | None = None, **common: Unpack[Common],
    ) -> None:  # fmt: skip
        super().__init__(**common)
        check_choice("budget", budget, RESTARTS)
        self.steps, self.budget, self.levels, self.draws = steps, budget, levels, draws
        self.restarts = RESTARTS[budget] if restarts is None else restarts
        self._random = False
        self._draws_now: int | None = None

    @abstractmethod
    def tries(self, defense: Any) -> Iterable[Attack]:
        """The searches to run, in order."""

    def last_tries(self, defense: Any) -> Iterable[Attack]:
        """Attacks whose cost no setting changes, run when all others have failed."""
        return ()

    def run(self, model: Any, images: Tensor, labels: Tensor, numbers: Sequence[int]) -> Tensor:
        """For each image the first try that the deployed defence answers wrongly, else the last one."""
        require_evidence(model, type(self).__name__)
        self.inspect(model)
        adversarial = images.clone()
        remaining = (~self.broken(model, images, labels)).nonzero().flatten()
        completed, refused = 0, None
        for attack in self.rounds(lambda: chain(self.tries(model), self.last_tries(model))):
            if not len(remaining):
                return adversarial
            chosen_numbers = [numbers[position] for position in remaining.tolist()]
            try:
                candidates = attack(model, images[remaining], labels[remaining], numbers=chosen_numbers)
            except NoGradientError as error:  # another try may need no gradient
                self.note([f"{LEFT_OUT}{error}"])
                refused = error
                continue
            completed += 1
            self.note(attack.flags_)
            adversarial[remaining] = candidates = self._allowed(candidates, images[remaining])
            remaining = remaining[~self.broken(model, candidates, labels[remaining])]
        if refused is not None and not completed:
            raise refused
        return adversarial

    def inspect(self, defense: Any) -> None:
        """Read from the traits of the defence whether it is random; must come before any search."""
        self._random = bool(getattr(getattr(defense, "traits", None), "stochastic", False))

    @property
    def averaged(self) -> int:
        """How many draws gradients are averaged over in the second round, after the one with a single draw."""
        return self.draws or (DRAWS[self.budget] if self._random else 1)

    @property
    def drawn(self) -> int:
        """How many draws a gradient is averaged over in this round."""
        return self._draws_now or self.averaged

    def rounds(self, tries: Callable[[], Iterable[Attack]]) -> Iterator[Attack]:
        """All tries with the gradient of the deployed draw; then, on a random defence, with the mean of many draws."""
        try:
            for draws in dict.fromkeys((1, self.averaged)):
                self._draws_now = draws
                yield from tries()
        finally:
            self._draws_now = None

    def broken(self, model: Any, images: Tensor, labels: Tensor) -> Tensor:
        """Whether the deployed answer is wrong [N]; for a random defence, whether any of several draws is."""
        if self.averaged == 1:
            return fooled(model, images, labels)
        return ever_fooled(model, images, labels)

    def chosen_levels(self, defense: Any) -> list[Level]:
        """The gradients to try on this defence."""
        return list(self.levels) if self.levels is not None else levels(defense, self.budget)

    def search(self, make: GoalMaker, **settings: Any) -> GoalSearch:
        """A gradient search with this attack's threat model, steps and seed."""
        basic: dict[str, Any] = {
            **self.common, "steps": self.steps, "keep": "fooled", "lattice": self.lattice, "restarts": self.restarts,
            "draws": self.drawn,
        }  # fmt: skip
        return GoalSearch(make, type(self).__name__, **{**basic, **settings})


class GoalSearch(GradientAttack):
    """A gradient search towards the goal that `make` returns; it starts where `begin` says, if that is given. `who` is
    the attack that errors name."""

    def __init__(self, make: GoalMaker, who: str, *, begin: GoalMaker | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.make, self._who, self.begin = make, who, begin

    def goal(self, model: Any, images: Tensor, labels: Tensor) -> Goal:
        """The goal that `make` returns."""
        goal: Goal = self.make(model, images, labels)
        return goal

    def start(self, goal: Goal, images: Tensor, numbers: Sequence[int], restart: int) -> Tensor:
        """The start that `begin` returns, projected into the ball."""
        at = super().start(goal, images, numbers, restart)
        if self.begin is None:
            return at
        moved: Tensor = self.begin(goal.model, at, goal.labels)
        return self.threat.project(moved.detach(), images)


class ViewGoal(Goal):
    """A goal whose loss is computed on a `View` of the defence, and whose success is judged by the deployed one."""

    rows: ClassVar[tuple[str, ...]] = ("labels",)

    def __init__(self, defense: Any, images: Tensor, labels: Tensor, *, level: Level) -> None:
        super().__init__(defense, labels)
        self.view = View(defense, level)

    def reached(self, images: Tensor) -> Tensor:
        """Whether the deployed answer is accepted and wrong [N]; where random searches refuse, that of any draw."""
        if refuses_by_search(self.model) and self.view.defense.traits.stochastic:
            return ever_fooled(self.model, images, self.labels)
        return super().reached(images)
