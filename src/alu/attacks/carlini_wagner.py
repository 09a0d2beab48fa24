"""The minimal-norm attack of Carlini and Wagner (2017) in L2: with a search for its constant, or with a fixed one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Unpack

import torch
from torch import Tensor

from alu.attacks.base import Attack, Common
from alu.attacks.goals import gradient_of, logits_of, margin
from alu.check import check_labels
from alu.errors import UsageError


class CarliniWagnerL2(Attack):
    """The smallest L2 change that makes the answer wrong: min ||x' - x||² + c * max(0, κ + f_y - max_{k≠y} f_k).

    With `searches` = 1 the constant `c` is fixed (the paper's table 1 must have used such a setting); with more, c is
    found by bisection for each image. Returns the smallest successful image, or the original where none was found;
    compare `(result - images).flatten(1).norm(dim=1)` with the budget of interest. With `eps`, a change that is longer
    is cut to it, and then seldom succeeds. If `targeted`, the labels are the classes to reach.
    """

    def __init__(
        self,
        *,
        searches: int = 6,
        steps: int = 150,
        lr: float = 0.01,
        c: float = 1.0,
        confidence: float = 0.0,
        targeted: bool = False,
        **common: Unpack[Common],
    ) -> None:
        norm = common.setdefault("norm", "L2")
        common.setdefault("eps", math.inf)
        super().__init__(targeted=targeted, **common)
        if norm != "L2":
            raise UsageError(f"CarliniWagnerL2 looks for the shortest change in L2, not in {norm}. Pass norm L2.")
        if searches < 1 or steps < 1 or not lr > 0 or not c > 0:
            raise UsageError(
                f"CarliniWagnerL2 needs searches and steps of at least 1, lr and c above 0; it was given {searches}, "
                f"{steps}, {lr:g} and {c:g}."
            )
        self.searches, self.steps, self.lr, self.c = searches, steps, lr, c
        self.confidence = confidence

    def run(self, model: Callable[[Tensor], Any], images: Tensor, labels: Tensor, numbers: Sequence[int]) -> Tensor:
        """The smallest successful image of each."""
        # In tanh space every value is an image in (0, 1); the rounding keeps pixels at 0 and 1 finite.
        origin = torch.atanh(images.clamp(1e-6, 1 - 1e-6) * 2 - 1)
        best = images.clone()
        shortest = torch.full((len(images),), float("inf"), device=images.device, dtype=images.dtype)
        low, high = torch.zeros_like(shortest), torch.full_like(shortest, float("inf"))
        c = torch.full_like(shortest, self.c)
        for _ in range(self.searches):
            succeeded = torch.zeros_like(shortest, dtype=torch.bool)
            at = origin.clone()
            mean, square = torch.zeros_like(at), torch.zeros_like(at)
            for step in range(self.steps):
                at = at.detach().requires_grad_(True)
                found = (torch.tanh(at) + 1) / 2
                logits = logits_of(model, found)
                check_labels(labels, len(images), logits.shape[1], "The attack")
                distance = (found - images).flatten(1).square().sum(1)
                lead = -margin(logits, labels) if self.targeted else margin(logits, labels)
                hinge = (self.confidence - lead).clamp_min(0)
                gradient = gradient_of((distance + c * hinge).sum(), at, "CarliniWagnerL2")
                with torch.no_grad():
                    hit = lead.detach() > self.confidence
                    succeeded |= hit
                    closer = hit & (distance.detach() < shortest)
                    best = torch.where(closer.view(-1, 1, 1, 1), found.detach(), best)
                    shortest = torch.where(closer, distance.detach(), shortest)
                    at = self._adam(at.detach(), gradient, mean, square, step)
            high = torch.where(succeeded, torch.minimum(high, c), high)
            low = torch.where(succeeded, low, torch.maximum(low, c))
            c = torch.where(high.isinf(), c * 10, (low + high) / 2)
        return best

    def _adam(self, at: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, step: int) -> Tensor:
        """One Adam step; the averages are updated in place."""
        mean.lerp_(gradient, 0.1)
        square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        scale = (square / (1 - 0.999 ** (step + 1))).sqrt().add_(1e-8)
        return at - self.lr * (mean / (1 - 0.9 ** (step + 1))) / scale
