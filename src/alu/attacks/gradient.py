"""Gradient searches inside a ball, written once: FGSM, PGD, MIM, CW∞."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from alu.attacks.base import Attack, gradient_of
from alu.attacks.goals import Goal, Misclassify, check_loss
from alu.errors import UsageError
from alu.rng import uniform_per_image


class GradientAttack(Attack):
    """Steps along the gradient of a goal's loss, projected back into the ball after each.

    `step_size` defaults to eps / 4. `momentum` is the decay of MIM's running gradient; 0 uses the gradient alone. Every
    image gets all its steps. Of each search the "last" image is kept, as the paper's attack does, or the one with the
    highest loss ("best"); of all restarts the best.
    """

    def __init__(
        self,
        *,
        norm: str = "Linf",
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
        batch_size: int = 100,
    ) -> None:
        super().__init__(norm=norm, eps=eps, seed=seed, batch_size=batch_size, targeted=targeted)
        if steps < 1 or restarts < 1:
            who = type(self).__name__
            raise UsageError(f"{who} needs at least 1 step and 1 restart; it was given {steps} and {restarts}.")
        if keep not in ("last", "best"):
            raise UsageError(f"A search keeps the 'last' or the 'best' images; it was asked for {keep!r}.")
        check_loss(loss)
        self.steps, self.restarts, self.random_start, self.keep = steps, restarts, random_start, keep
        self.step_size = eps / 4 if step_size is None else step_size
        self.momentum, self.loss = momentum, loss

    def goal(self, model: Callable[[Tensor], Tensor], images: Tensor, labels: Tensor) -> Goal:
        """What this attack wants; an adaptive attack writes its own."""
        return Misclassify(model, labels, self.loss, self.targeted)

    def run(self, model: Callable[[Tensor], Tensor], images: Tensor, labels: Tensor, first: int) -> Tensor:
        """The images of the restart with the highest loss."""
        goal = self.goal(model, images, labels)
        chosen, highest = images, torch.full((len(images),), float("-inf"), device=images.device)
        for restart in range(self.restarts):
            found, loss = self._search(goal, images, first, restart)
            chosen, highest = _higher(chosen, highest, found, loss)
        return chosen

    def _search(self, goal: Goal, images: Tensor, first: int, restart: int) -> tuple[Tensor, Tensor]:
        at = images
        if self.random_start:
            noise = uniform_per_image(len(images), tuple(images.shape[1:]), self.seed, "start", restart, first=first)
            at = self.threat.random_start(images, noise)
        best, highest = at, torch.full((len(images),), float("-inf"), device=images.device)
        running = torch.zeros_like(images)
        for _ in range(self.steps):
            at = at.detach().requires_grad_(True)
            loss = goal.loss(at)
            gradient = gradient_of(loss.sum(), at, type(self).__name__)
            if self.keep == "best":
                best, highest = _higher(best, highest, at.detach(), loss.detach())
            if self.momentum:
                running = self.momentum * running + gradient / _per_image(gradient.flatten(1).abs().mean(1), gradient)
                gradient = running
            at = self.threat.project(at.detach() + self.step_size * self._direction(gradient), images)
        if self.keep == "last" and self.restarts == 1:
            # Nothing to compare with: the last loss would cost a forward pass for nothing.
            return at, torch.zeros(len(images), device=images.device)
        with torch.no_grad():
            last = goal.loss(at)
        return _higher(best, highest, at, last) if self.keep == "best" else (at, last)

    def _direction(self, gradient: Tensor) -> Tensor:
        if self.threat.norm == "Linf":
            return gradient.sign()
        return gradient / _per_image(gradient.flatten(1).norm(dim=1), gradient)


class PGD(GradientAttack):
    """Projected gradient ascent on the loss (Madry et al. 2018), from a random start; PGD-20 by default."""


class FGSM(GradientAttack):
    """One step of eps along the gradient, from the image itself (Goodfellow et al. 2015)."""

    def __init__(
        self,
        *,
        norm: str = "Linf",
        eps: float = 8 / 255,
        seed: int = 0,
        loss: str = "ce",
        targeted: bool = False,
        batch_size: int = 100,
    ) -> None:
        super().__init__(
            norm=norm, eps=eps, steps=1, step_size=eps, random_start=False, seed=seed, loss=loss, targeted=targeted,
            batch_size=batch_size,
        )  # fmt: skip


class MIM(GradientAttack):
    """PGD along a running gradient (Dong et al. 2018): its images carry over to other networks better."""

    def __init__(
        self,
        *,
        norm: str = "Linf",
        eps: float = 8 / 255,
        steps: int = 20,
        step_size: float | None = None,
        decay: float = 1.0,
        seed: int = 0,
        loss: str = "ce",
        targeted: bool = False,
        batch_size: int = 100,
    ) -> None:
        super().__init__(
            norm=norm, eps=eps, steps=steps, step_size=step_size, random_start=False, momentum=decay, seed=seed,
            loss=loss, targeted=targeted, batch_size=batch_size,
        )  # fmt: skip


class CWLinf(GradientAttack):
    """PGD on the margin between the highest other logit and the label's: C&W's loss inside a ball."""

    def __init__(
        self,
        *,
        norm: str = "Linf",
        eps: float = 8 / 255,
        steps: int = 20,
        step_size: float | None = None,
        restarts: int = 1,
        seed: int = 0,
        targeted: bool = False,
        keep: str = "best",
        batch_size: int = 100,
    ) -> None:
        super().__init__(
            norm=norm, eps=eps, steps=steps, step_size=step_size, restarts=restarts, seed=seed, loss="margin",
            targeted=targeted, keep=keep, batch_size=batch_size,
        )  # fmt: skip


def _per_image(values: Tensor, like: Tensor) -> Tensor:
    """One value per image, shaped to divide `like` by; never 0."""
    return values.clamp_min(1e-12).view(-1, *[1] * (like.ndim - 1))


def _higher(kept: Tensor, highest: Tensor, found: Tensor, loss: Tensor) -> tuple[Tensor, Tensor]:
    """Image by image, whichever has the higher loss."""
    better = loss > highest
    return torch.where(better.view(-1, *[1] * (kept.ndim - 1)), found, kept), torch.where(better, loss, highest)
