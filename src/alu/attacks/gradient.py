"""Gradient searches inside a ball, written once: FGSM, PGD, MIM, CW∞."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

import torch
from torch import Tensor

from alu.attacks.base import Attack, Common
from alu.attacks.copies import draws_of
from alu.attacks.goals import Averaged, Goal, Misclassify, check_loss
from alu.errors import UsageError, check_choice
from alu.rng import uniform_per_image
from alu.threat import USUAL, Norm

KEEPS = ("last", "best", "fooled")
CHECK_EVERY = 5
"""Steps between two hard tests of `keep="fooled"`: of the image as it is, and of the highest loss since the last."""
STEEPEST = 1e6
"""What an infinite slope counts as."""


class GradientAttack(Attack):
    """Steps along the gradient of a goal's loss, projected back into the ball after each.

    `step_size` defaults to eps / 4. `momentum` is the decay of MIM's running gradient; 0 uses the gradient alone. Every
    image gets all its steps, unless `stop_when_fooled` leaves it where it first succeeds. Of each search the "last"
    image is kept, as the paper's attack does, the one with the highest loss ("best"), or the first that the goal's hard
    test finds to succeed ("fooled", asked every few steps), else the last; of all restarts the best. `draws` above 1
    average each gradient over so many calls of a model that answers at random (EOT).
    """

    def __init__(
        self,
        *,
        norm: Norm = "Linf",
        eps: float = 8 / 255,
        steps: int = 20,
        step_size: float | None = None,
        restarts: int = 1,
        random_start: bool = True,
        momentum: float = 0.0,
        seed: int = 0,
        loss: str = "ce",
        targeted: bool = False,
        keep: str = "last",
        stop_when_fooled: bool = False,
        shrink: bool = False,
        draws: int = 1,
        batch_size: int = 100,
        lattice: bool = False,
    ) -> None:
        super().__init__(norm=norm, eps=eps, seed=seed, batch_size=batch_size, targeted=targeted, lattice=lattice)
        if min(steps, restarts, draws) < 1:
            raise UsageError(
                f"{type(self).__name__} needs at least 1 step, 1 restart and 1 draw; it was given {steps}, {restarts} "
                f"and {draws}."
            )
        check_choice("way to keep images", keep, KEEPS)
        check_loss(loss)
        self.steps, self.restarts, self.random_start, self.keep = steps, restarts, random_start, keep
        self.step_size = eps / 4 if step_size is None else step_size
        self.momentum, self.loss, self.draws = momentum, loss, draws
        self.stop_when_fooled, self.shrink = stop_when_fooled, shrink

    def goal(self, model: Callable[[Tensor], Any], images: Tensor, labels: Tensor) -> Goal:
        """What this attack wants; an adaptive attack writes its own."""
        return Misclassify(model, labels, self.loss, self.targeted)

    def run(self, model: Callable[[Tensor], Any], images: Tensor, labels: Tensor, numbers: Sequence[int]) -> Tensor:
        """The first restart that succeeds, else the one with the highest loss; so one more never does harm."""
        chosen, highest = images.clone(), torch.full((len(images),), float("-inf"), device=images.device)
        standing = torch.arange(len(images), device=images.device)
        for restart in range(self.restarts):
            goals = [self.goal(drawn, images[standing], labels[standing]) for drawn in draws_of(model, self.draws)]
            for other in goals[1:]:
                other.follow(goals[0])
            goal = Averaged(goals) if self.draws > 1 else goals[0]
            named = [numbers[place] for place in standing.tolist()]
            found, loss = self._search(goal, images[standing], named, restart)
            if self.restarts == 1:
                return found
            loss = torch.where(goal.reached(self._allowed(found, images[standing])), float("inf"), loss.to(highest))
            chosen[standing], highest[standing] = higher(chosen[standing], highest[standing], found, loss)
            standing = (~highest.isposinf()).nonzero().flatten()
            if not len(standing):
                break
        return chosen

    def start(self, goal: Goal, images: Tensor, numbers: Sequence[int], restart: int) -> Tensor:
        """Where a search begins: a random point of the ball, or the image itself, but then only the first time."""
        if not self.random_start and restart == 0:
            return images
        noise = uniform_per_image(numbers, tuple(images.shape[1:]), self.seed, "start", restart)
        return self.threat.random_start(images, noise)

    def _search(self, goal: Goal, images: Tensor, numbers: Sequence[int], restart: int) -> tuple[Tensor, Tensor]:
        at = self.start(goal, images, numbers, restart)
        best, highest = at, torch.full((len(images),), float("-inf"), device=images.device)
        peak, top = best, highest
        running = torch.zeros_like(images)
        for step in range(self.steps):
            at = at.detach().requires_grad_(True)
            gradient, loss = goal.ascent(at, type(self).__name__)
            # One infinite or missing slope must not take the others' direction with it.
            gradient = torch.nan_to_num(gradient, nan=0.0, posinf=STEEPEST, neginf=-STEEPEST)
            peak, top = higher(peak, top, at.detach(), loss) if self.keep != "last" else (peak, top)
            if self.keep == "fooled" and step and step % CHECK_EVERY == 0:
                # A loss need not rank as the hard test does, so the image as it is now is asked first.
                for shown in (at.detach(), peak):
                    best, highest = self._tested(goal, shown, images, best, highest)
                if bool(highest.isposinf().all()):
                    return best, highest
                top = torch.full_like(top, float("-inf"))
            if self.momentum:
                running = self.momentum * running + gradient / per_image(gradient.flatten(1).abs().mean(1), gradient)
                gradient = running
            size = self.step_size * (1 - step / self.steps) if self.shrink else self.step_size
            moved = self.threat.project(at.detach() + size * self._direction(gradient), images)
            at = where(~goal.reached(at.detach()), moved, at.detach()) if self.stop_when_fooled else moved
        if self.keep == "last" and self.restarts == 1:
            # Nothing to compare with: the last loss would cost a forward pass for nothing.
            return at, torch.zeros(len(images), device=images.device)
        with torch.no_grad():
            at = self._allowed(at, images)
            if self.keep == "fooled":
                best, highest = self._tested(goal, peak, images, best, highest)
                last = reached_first(goal, at, highest).clamp_min(0)
                return higher(best, highest, at, last)
            last = goal.loss(at)
        return (at, last) if self.keep == "last" else higher(peak, top, at, last)

    def _tested(
        self, goal: Goal, found: Tensor, images: Tensor, best: Tensor, highest: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The best so far, with `found` wherever it is the first to pass the hard test."""
        if bool(highest.isposinf().all()):
            return best, highest
        shown = self._allowed(found, images)
        return higher(best, highest, shown, reached_first(goal, shown, highest))

    def _direction(self, gradient: Tensor) -> Tensor:
        if self.threat.norm == "Linf":
            return gradient.sign()
        return gradient / per_image(gradient.flatten(1).norm(dim=1), gradient)


class PGD(GradientAttack):
    """Projected gradient ascent on the loss (Madry et al. 2018), from a random start; PGD-20 by default."""


class Search(Common, total=False):
    """The settings that gradient searches of every kind take."""

    steps: int
    step_size: float | None
    targeted: bool
    draws: int


class FGSM(GradientAttack):
    """One step of eps along the gradient, from the image itself (Goodfellow et al. 2015)."""

    def __init__(
        self, *, loss: str = "ce", targeted: bool = False, draws: int = 1, **common: Unpack[Common]
    ) -> None:  # fmt: skip
        step = common.get("eps", USUAL["Linf"])
        super().__init__(
            steps=1, step_size=step, random_start=False, loss=loss, targeted=targeted, draws=draws, **common
        )  # fmt: skip


class MIM(GradientAttack):
    """PGD along a running gradient (Dong et al. 2018): its images carry over to other networks better."""

    def __init__(self, *, decay: float = 1.0, loss: str = "ce", **search: Unpack[Search]) -> None:
        super().__init__(random_start=False, momentum=decay, loss=loss, **search)
        self.decay = decay


class CWLinf(GradientAttack):
    """PGD on the margin between the highest other logit and the label's: C&W's loss inside a ball."""

    def __init__(self, *, restarts: int = 1, keep: str = "best", **search: Unpack[Search]) -> None:
        super().__init__(loss="margin", restarts=restarts, keep=keep, **search)


def per_image(values: Tensor, like: Tensor) -> Tensor:
    """One value per image, shaped to divide `like` by; never 0."""
    return values.clamp_min(1e-12).view(-1, *[1] * (like.ndim - 1))


def higher(kept: Tensor, highest: Tensor, found: Tensor, loss: Tensor) -> tuple[Tensor, Tensor]:
    """Image by image, whichever has the higher loss."""
    better = loss > highest
    return where(better, found, kept), torch.where(better, loss, highest)


def reached_first(goal: Goal, images: Tensor, highest: Tensor) -> Tensor:
    """Infinity where images succeed that had not before, -infinity elsewhere [N]: a rank for `higher`."""
    hit = goal.reached(images.detach()) & ~highest.isposinf()
    return torch.where(hit, float("inf"), float("-inf")).to(highest)


def where(chosen: Tensor, found: Tensor, kept: Tensor) -> Tensor:
    """Image by image, `found` where `chosen`, else `kept`."""
    return torch.where(chosen.view(-1, *[1] * (kept.ndim - 1)), found, kept)
