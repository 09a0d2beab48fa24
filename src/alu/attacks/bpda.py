"""BPDA for purifiers without a useful gradient, EOT for random defences (Athalye et al. 2018)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from alu.attacks.copies import with_grad_mode
from alu.attacks.goals import Goal, Misclassify, Model
from alu.attacks.gradient import GradientAttack


class BPDAEOT(GradientAttack):
    """PGD with the gradient at the purified image in place of the image's own, averaged over random draws.

    For a model without gradient modes its own gradient is averaged.

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
