"""Gradient searches inside a ball, written once: FGSM, PGD, MIM, CW∞, BPDA with EOT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Unpack, get_args

import torch
from torch import Tensor

from alu.attacks.base import Attack, Common
from alu.attacks.copies import draws_of, with_grad_mode
from alu.attacks.goals import LOSSES, Averaged, Goal, Loss, Misclassify, Model
from alu.attacks.watching import report
from alu.errors import UsageError, check_choice
from alu.rng import uniform_per_image
from alu.threat import USUAL

Keep = Literal["last", "best", "fooled"]
CHECK_EVERY = 5
"""Steps between two tests of `keep="fooled"`: of the current image, and of the highest loss since the last test."""
STEEPEST = 1e6
"""The value that replaces an infinite gradient."""


class GradientAttack(Attack):
    """Base of the gradient searches: steps along the gradient of a goal's loss, each projected back into the ball.

    Parameters
    ----------
    steps, step_size
        Number of steps and their size (eps / 4 by default); plus those of `Attack`.
    restarts, random_start
        How often each image is searched, and whether the first search starts at a random point of the ball too.
    momentum, shrink
        The decay of MIM's running gradient (0: none), and whether the step size falls linearly to 0.
    loss
        "ce" (cross-entropy) or "margin" (highest other logit minus the label's).
    keep, stop_when_fooled
        Which image of a search is kept: the "last", as the paper's attack does, the "best" (highest loss), or the first
        that is "fooled" (tested every few steps), else the last; and whether an image stops where it first succeeds.
    draws
        How many calls of a random model each gradient is averaged over (EOT).

    Examples
    --------
    >>> adversarial = alu.attacks.PGD(steps=2, restarts=2, loss="margin", keep="best")(classifier, images, labels)
    """

    def __init__(
        self, *, steps: int = 20, step_size: float | None = None, restarts: int = 1, random_start: bool = True,
        momentum: float = 0.0, loss: Loss = "ce", targeted: bool = False, keep: Keep = "last",
        stop_when_fooled: bool = False, shrink: bool = False, draws: int = 1, **common: Unpack[Common],
    ) -> None:  # fmt: skip
        super().__init__(targeted=targeted, **common)
        if min(steps, restarts, draws) < 1:
            raise UsageError(
                f"{type(self).__name__} needs at least 1 step, 1 restart and 1 draw; it was given {steps}, {restarts} "
                f"and {draws}."
            )
        check_choice("way to keep images", keep, get_args(Keep))
        check_choice("loss", loss, LOSSES)
        self.steps, self.restarts, self.random_start, self.keep = steps, restarts, random_start, keep
        self.step_size = self.eps / 4 if step_size is None else step_size
        self.momentum, self.loss, self.draws = momentum, loss, draws
        self.stop_when_fooled, self.shrink = stop_when_fooled, shrink
        self._who = type(self).__name__

    def goal(self, model: Model, images: Tensor, labels: Tensor) -> Goal:
        """What this attack wants; an adaptive attack writes its own."""
        return Misclassify(model, labels, self.loss, self.targeted)

    def run(self, model: Model, images: Tensor, labels: Tensor, numbers: Sequence[int]) -> Tensor:
        """The first restart that succeeds, else the one with the highest loss; so one more restart never does harm."""
        chosen, highest = images.clone(), torch.full((len(images),), float("-inf"), device=images.device)
        remaining = torch.arange(len(images), device=images.device)
        for restart in range(self.restarts):
            goals = [self.goal(drawn, images[remaining], labels[remaining]) for drawn in draws_of(model, self.draws)]
            for other in goals[1:]:
                other.follow(goals[0])
            goal = Averaged(goals) if self.draws > 1 else goals[0]
            chosen_numbers = [numbers[place] for place in remaining.tolist()]
            candidates, loss = self._search(goal, images[remaining], chosen_numbers, restart)
            if self.restarts == 1:
                return candidates
            success = goal.reached(self._allowed(candidates, images[remaining]))
            loss = torch.where(success, float("inf"), loss.to(highest))
            chosen[remaining], highest[remaining] = higher(chosen[remaining], highest[remaining], candidates, loss)
            remaining = (~highest.isposinf()).nonzero().flatten()
            if not len(remaining):
                break
        return chosen

    def start(self, goal: Goal, images: Tensor, numbers: Sequence[int], restart: int) -> Tensor:
        """Where a search begins: a random point of the ball; without `random_start` the first one at the image."""
        if not self.random_start and restart == 0:
            return images
        noise = uniform_per_image(numbers, tuple(images.shape[1:]), self.seed, "start", restart)
        return self.threat.random_start(images, noise)

    def _search(self, goal: Goal, images: Tensor, numbers: Sequence[int], restart: int) -> tuple[Tensor, Tensor]:
        at = self.start(goal, images, numbers, restart)
        best, highest = at, torch.full((len(images),), float("-inf"), device=images.device)
        peak, top = best, highest
        running = torch.zeros_like(images)
        # Of all images the result so far; the search goes on with those at `left`.
        found, reached = best.clone(), highest.clone()
        left = torch.arange(len(images), device=images.device)
        for step in range(self.steps):
            report(self._who, step, at)
            at = at.detach().requires_grad_(True)
            gradient, loss = goal.ascent(at, self._who)
            # One infinite or NaN value must not spoil the direction of the others.
            gradient = torch.nan_to_num(gradient, nan=0.0, posinf=STEEPEST, neginf=-STEEPEST)
            peak, top = higher(peak, top, at.detach(), loss) if self.keep != "last" else (peak, top)
            if self.keep == "fooled" and step and step % CHECK_EVERY == 0:
                # The highest loss need not mean success, so the current image is tested first.
                for candidates in (at.detach(), peak):
                    best, highest = self._tested(goal, candidates, images, best, highest)
                found[left], reached[left] = best, highest
                stands = ~highest.isposinf()
                if not bool(stands.any()):
                    return found, reached
                top = torch.full_like(top, float("-inf"))
                fewer = None if bool(stands.all()) else goal.only(stands)
                if fewer is not None:
                    goal, left, images, at = fewer, left[stands], images[stands], at[stands]
                    best, highest, peak, top = best[stands], highest[stands], peak[stands], top[stands]
                    gradient, running = gradient[stands], running[stands]
            if self.momentum:
                running = self.momentum * running + gradient / per_image(gradient.flatten(1).abs().mean(1), gradient)
                gradient = running
            size = self.step_size * (1 - step / self.steps) if self.shrink else self.step_size
            moved = self.threat.project(at.detach() + size * self._direction(gradient), images)
            at = where(~goal.reached(at.detach()), moved, at.detach()) if self.stop_when_fooled else moved
        if self.keep == "last" and self.restarts == 1:
            # There is nothing to compare with: the last loss would be a wasted forward pass.
            return at, torch.zeros(len(images), device=images.device)
        with torch.no_grad():
            at = self._allowed(at, images)
            if self.keep == "fooled":
                best, highest = self._tested(goal, peak, images, best, highest)
                at = where(highest.isposinf(), best, at)
                last = reached_first(goal, at, highest).clamp_min(0)
                found[left], reached[left] = higher(best, highest, at, last)
                return found, reached
            last = goal.loss(at)
        return (at, last) if self.keep == "last" else higher(peak, top, at, last)

    def _tested(
        self, goal: Goal, candidates: Tensor, images: Tensor, best: Tensor, highest: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The best so far, replaced by a candidate wherever that is the first to succeed."""
        if bool(highest.isposinf().all()):
            return best, highest
        # Of an image that has succeeded nothing new is asked: what succeeded is known where answers are kept.
        candidates = where(highest.isposinf(), best, self._allowed(candidates, images))
        return higher(best, highest, candidates, reached_first(goal, candidates, highest))

    def _direction(self, gradient: Tensor) -> Tensor:
        if self.threat.norm == "Linf":
            return gradient.sign()
        return gradient / per_image(gradient.flatten(1).norm(dim=1), gradient)


class PGD(GradientAttack):
    """Projected gradient ascent on the loss (Madry et al. 2018), from a random start. Parameters: `GradientAttack`.

    Examples
    --------
    >>> adversarial = alu.attacks.PGD(eps=8 / 255, steps=2)(classifier, images, labels)
    """


class Search(Common, total=False):
    """The settings that all gradient searches take."""

    steps: int
    step_size: float | None
    targeted: bool
    draws: int


class FGSM(GradientAttack):
    """One step of size eps along the gradient, from the image (Goodfellow et al. 2015). Parameters: `GradientAttack`.

    Examples
    --------
    >>> adversarial = alu.attacks.FGSM(eps=8 / 255)(classifier, images, labels)
    """

    def __init__(
        self, *, loss: Loss = "ce", targeted: bool = False, draws: int = 1, **common: Unpack[Common]
    ) -> None:  # fmt: skip
        step = common.get("eps", USUAL["Linf"])
        super().__init__(
            steps=1, step_size=step, random_start=False, loss=loss, targeted=targeted, draws=draws, **common
        )  # fmt: skip


class MIM(GradientAttack):
    """PGD along a running sum of gradients (Dong et al. 2018): its images transfer better to other networks.

    Parameters
    ----------
    decay
        How much of the running gradient each step keeps; plus those of `GradientAttack`.

    Examples
    --------
    >>> adversarial = alu.attacks.MIM(steps=2)(classifier, images, labels)
    """

    def __init__(self, *, decay: float = 1.0, loss: Loss = "ce", **search: Unpack[Search]) -> None:
        super().__init__(random_start=False, momentum=decay, loss=loss, **search)
        self.decay = decay


class CWLinf(GradientAttack):
    """PGD on the margin between the highest other logit and the label's: Carlini and Wagner's loss inside a ball.

    Parameters are those of `GradientAttack`.

    Examples
    --------
    >>> adversarial = alu.attacks.CWLinf(steps=2)(classifier, images, labels)
    """

    def __init__(self, *, restarts: int = 1, keep: Keep = "best", **search: Unpack[Search]) -> None:
        super().__init__(loss="margin", restarts=restarts, keep=keep, **search)


class BPDAEOT(GradientAttack):
    """PGD with the gradient at the purified image in place of the image's own (BPDA), averaged over random draws (EOT).

    Both are by Athalye et al. 2018. For a model without gradient modes its own gradient is averaged.

    Parameters
    ----------
    draws
        How many draws of the defence each gradient is averaged over; plus those of `GradientAttack`.

    Examples
    --------
    >>> adversarial = alu.attacks.BPDAEOT(steps=1, draws=2)(defense, images, labels)
    """

    def __init__(self, *, draws: int = 10, **settings: Any) -> None:
        super().__init__(draws=draws, **settings)

    def goal(self, model: Model, images: Tensor, labels: Tensor) -> Goal:
        """A wrong answer, with the gradient of grad_mode "bpda"."""
        attacked = with_grad_mode(model, "bpda") if hasattr(model, "grad_mode") else model
        return Misclassify(attacked, labels, self.loss, self.targeted)


def per_image(values: Tensor, like: Tensor) -> Tensor:
    """One value per image, shaped to divide `like` by; never 0."""
    return values.clamp_min(1e-12).view(-1, *[1] * (like.ndim - 1))


def higher(kept: Tensor, highest: Tensor, candidates: Tensor, loss: Tensor) -> tuple[Tensor, Tensor]:
    """For each image, whichever has the higher loss."""
    better = loss > highest
    return where(better, candidates, kept), torch.where(better, loss, highest)


def reached_first(goal: Goal, images: Tensor, highest: Tensor) -> Tensor:
    """Infinity where an image succeeds for the first time, -infinity elsewhere [N]: a loss for `higher`."""
    hit = goal.reached(images.detach()) & ~highest.isposinf()
    return torch.where(hit, float("inf"), float("-inf")).to(highest)


def where(chosen: Tensor, candidates: Tensor, kept: Tensor) -> Tensor:
    """For each image, the candidate where `chosen`, else the one kept."""
    return torch.where(chosen.view(-1, *[1] * (kept.ndim - 1)), candidates, kept)
