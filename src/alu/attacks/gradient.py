"""Gradient searches inside a ball: PGD."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from alu.attacks.base import Attack, gradient_of
from alu.check import answers, check_labels, check_logits
from alu.errors import UsageError, nearest
from alu.rng import uniform_per_image


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of each image [N]."""
    return F.cross_entropy(logits, labels, reduction="none")


def margin(logits: Tensor, labels: Tensor) -> Tensor:
    """Highest other logit minus the label's, for each image [N]; positive where the answer is another class."""
    own = logits.gather(1, labels[:, None]).squeeze(1)
    others = logits.scatter(1, labels[:, None], float("-inf"))
    return others.amax(1) - own


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"ce": cross_entropy, "margin": margin}


class PGD(Attack):
    """Projected gradient ascent on the loss (Madry et al. 2018), from a random start by default.

    `step_size` defaults to eps / 4, that is 2/255 at 8/255. Every image gets all its steps. Of each search the "last"
    image is kept, as the paper's attack does, or the one with the highest loss ("best"); of all restarts the best.
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
        seed: int = 0,
        loss: str = "ce",
        targeted: bool = False,
        keep: str = "last",
        batch_size: int = 100,
    ) -> None:
        super().__init__(norm=norm, eps=eps, seed=seed, batch_size=batch_size, targeted=targeted)
        if steps < 1 or restarts < 1:
            raise UsageError(f"PGD needs at least 1 step and 1 restart; it was given {steps} and {restarts}.")
        if loss not in LOSSES:
            raise UsageError(f"PGD has no loss {loss!r}. {nearest(loss, list(LOSSES))}")
        if keep not in ("last", "best"):
            raise UsageError(f"PGD keeps the 'last' or the 'best' images; it was asked for {keep!r}.")
        self.steps, self.restarts, self.random_start, self.keep = steps, restarts, random_start, keep
        self.step_size = eps / 4 if step_size is None else step_size
        self.loss = loss

    def run(self, model: Callable[[Tensor], Tensor], images: Tensor, labels: Tensor, first: int) -> Tensor:
        """The images with the highest loss (or the last ones) of every restart."""
        chosen, highest = images, torch.full((len(images),), float("-inf"), device=images.device)
        for restart in range(self.restarts):
            found, loss = self._search(model, images, labels, first, restart)
            better = loss > highest
            chosen = torch.where(better.view(-1, 1, 1, 1), found, chosen)
            highest = torch.where(better, loss, highest)
        return chosen

    def _search(
        self, model: Callable[[Tensor], Tensor], images: Tensor, labels: Tensor, first: int, restart: int
    ) -> tuple[Tensor, Tensor]:
        at = images
        if self.random_start:
            noise = uniform_per_image(len(images), tuple(images.shape[1:]), self.seed, "start", restart, first=first)
            at = self.threat.random_start(images, noise)
        best, highest = at, torch.full((len(images),), float("-inf"), device=images.device)
        judge = self.keep == "best" or self.restarts > 1
        for _ in range(self.steps):
            at = at.detach().requires_grad_(True)
            loss = self._loss(model, at, labels)
            gradient = gradient_of(loss.sum(), at, type(self).__name__)
            if self.keep == "best":
                best, highest = _higher(best, highest, at.detach(), loss.detach())
            at = self.threat.project(at.detach() + self.step_size * self._direction(gradient), images)
        if not judge:
            return at, torch.zeros(len(images), device=images.device)
        with torch.no_grad():
            last = self._loss(model, at, labels)
        return _higher(best, highest, at, last) if self.keep == "best" else (at, last)

    def _loss(self, model: Callable[[Tensor], Tensor], at: Tensor, labels: Tensor) -> Tensor:
        logits = check_logits(answers(model, at), len(at), "The attacked model")
        check_labels(labels, len(at), logits.shape[1], type(self).__name__)
        loss = LOSSES[self.loss](logits, labels)
        return -loss if self.targeted else loss

    def _direction(self, gradient: Tensor) -> Tensor:
        if self.threat.norm == "Linf":
            return gradient.sign()
        norm: Tensor = gradient.flatten(1).norm(dim=1).clamp_min(1e-12)
        return gradient / norm.view(-1, *[1] * (gradient.ndim - 1))


def _higher(kept: Tensor, highest: Tensor, found: Tensor, loss: Tensor) -> tuple[Tensor, Tensor]:
    """Image by image, whichever has the higher loss."""
    better = loss > highest
    return torch.where(better.view(-1, 1, 1, 1), found, kept), torch.where(better, loss, highest)
