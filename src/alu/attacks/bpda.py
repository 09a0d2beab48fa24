"""Attacks around what has no useful gradient: BPDA for the purifier, EOT for random draws (Athalye et al. 2018)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from alu.attacks.copies import with_grad_mode
from alu.attacks.goals import Goal, Misclassify, Model
from alu.attacks.gradient import GradientAttack


class BPDAEOT(GradientAttack):
    """PGD along the gradient at the purified image, taken as the image's own, averaged over `draws` answers.

    A model without gradient modes has no purifier to pass by; its own gradient is averaged.
    """

    def __init__(self, *, draws: int = 10, **settings: Any) -> None:
        super().__init__(draws=draws, **settings)

    def goal(self, model: Model, images: Tensor, labels: Tensor) -> Goal:
        """A wrong answer, with the gradient of grad_mode "bpda"."""
        seen = with_grad_mode(model, "bpda") if hasattr(model, "grad_mode") else model
        return Misclassify(seen, labels, self.loss, self.targeted)
