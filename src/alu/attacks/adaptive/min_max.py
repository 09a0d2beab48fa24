"""min-max: a wrong class at every point that the defence's own search visits, from points that are wrong already."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from alu.attacks.adaptive.confident import Ahead, Aimed, TargetedAttack
from alu.attacks.adaptive.view import Level, require_search
from alu.attacks.base import Attack
from alu.attacks.goals import Goal
from alu.errors import NoGradientError

SHARPNESS = 0.1
"""A point counts e times less for each such share of the range of margins that it is behind the worst."""
MOMENTUM = 0.7
"""How much of the running gradient a step keeps: the worst point changes from step to step."""


class WorstVisited(Aimed):
    """The target's margin at the worst point of the search around the image, which is followed to its end.

    The direction is a mean over all points, whose offsets from the image count as constants: those where the target
    does worst count most. One point alone would be left behind as another becomes the worst.
    """

    def ascent(self, images: Tensor, who: str) -> tuple[Tensor, Tensor]:
        """The weighted direction, and the margin at the worst point [N]."""
        visited, margins, gradients = self._searched(images)
        for number, gradient in enumerate(gradients):
            if gradient is None:
                gradients[number] = self._gradient(visited[number], who)
        behind = torch.stack(margins)
        behind = behind.amax(0) - behind
        weights = torch.softmax(-behind / (SHARPNESS * behind.amax(0)).clamp_min(1e-6), 0)
        direction = sum(
            weight.view(-1, 1, 1, 1) * gradient
            for weight, gradient in zip(weights, gradients, strict=True)
            if gradient is not None
        )
        assert isinstance(direction, Tensor)
        return -direction, -torch.stack(margins).amax(0)

    def loss(self, images: Tensor) -> Tensor:
        """The target's margin at the worst point [N], without a gradient."""
        return -torch.stack(self._searched(images)[1]).amax(0)

    def _searched(self, images: Tensor) -> tuple[list[Tensor], list[Tensor], list[Tensor | None]]:
        """Points of the search, the margins of another class over the target there, and their gradients."""
        visited, margins, gradients = list[Tensor](), list[Tensor](), list[Tensor | None]()

        def visit(at: Tensor, ahead: Tensor, gradient: Tensor | None) -> None:
            visited.append(at)
            margins.append(ahead)
            gradients.append(gradient)

        with torch.no_grad():
            evidence = self.view.evidence(images.detach())
        self.view.twin.detector.search(evidence, self.target, stop=False, visit=visit)
        return visited, margins, gradients

    def _gradient(self, images: Tensor, who: str) -> Tensor:
        at = images.detach().requires_grad_(True)
        behind = -self.margin(self.nearby(at))
        if not behind.requires_grad:
            raise NoGradientError(f"{who} needs gradients, but the model gives none for its images.")
        (gradient,) = torch.autograd.grad(behind.sum(), at)
        return gradient


class MinMax(TargetedAttack):
    """PGD on the worst of all points that the search around the image visits, for each likely wrong class.

    A picture that is answered wrongly has that answer all around it, so there is a wrong answer within eps - radius of
    the clean image. The search starts from the surest one there, then from the surest one within eps, then from the
    image. Parameters: `TargetedAttack`.

    Examples
    --------
    >>> check = alu.Defense(classifier, detector=alu.detectors.Neighbourhood(steps=1), rule="abstain")
    >>> adversarial = alu.attacks.adaptive.MinMax(steps=1, targets=1)(check, images, labels)
    """

    def goals(self, defense: Any) -> tuple[Callable[..., Goal], ...]:
        """One."""
        require_search(defense, type(self).__name__)
        return (WorstVisited,)

    def tries(self, defense: Any) -> Iterable[Attack]:
        """From each start, for each target."""
        (goal,) = self.goals(defense)
        nearer = self.eps - float(defense.detector.radius)
        for level in self.chosen_levels(defense):
            for radius in (nearer, self.eps, 0.0):
                begin = partial(self._surest, radius=radius, level=level) if radius > 0 else None
                for rank in range(self.targets):
                    yield self.search(
                        partial(goal, level=level, rank=rank), begin=begin and partial(begin, rank=rank), shrink=True,
                        momentum=MOMENTUM, step_size=self.eps / 2, random_start=False,
                    )  # fmt: skip

    def _surest(self, model: Any, images: Tensor, labels: Tensor, *, radius: float, level: Level, rank: int) -> Tensor:
        """The surest answer of this wrong class within the radius that margin PGD finds."""
        search = self.search(
            partial(Ahead, level=level, rank=rank), eps=radius, shrink=True, momentum=MOMENTUM, step_size=radius / 2,
            random_start=False, keep="best",
        )  # fmt: skip
        return search(model, images, labels)
