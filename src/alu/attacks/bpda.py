"""Attacks around what has no useful gradient: BPDA for the purifier, EOT for random draws (Athalye et al. 2018)."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from torch import Tensor, nn

from alu.attacks.goals import Goal, Misclassify, Model
from alu.attacks.gradient import GradientAttack
from alu.errors import UsageError
from alu.rng import derived_seed

Module = TypeVar("Module", bound=nn.Module)


def shallow(module: Module) -> Module:
    """A copy that shares every weight but whose attributes and parts can be replaced."""
    made = copy.copy(module)
    made.__dict__["_modules"] = dict(module._modules)
    return made


def with_grad_mode(defense: Any, grad_mode: str) -> Any:
    """The same defence with another gradient; the two share their parts, and the one given stays as it is."""
    if not hasattr(defense, "grad_mode"):
        raise UsageError(
            f"with_grad_mode needs an alu.Defense; {type(defense).__name__} has no grad_mode. "
            "Wrap it: alu.Defense(classifier, purifier, detector)."
        )
    made = shallow(defense)
    made.grad_mode = grad_mode
    return made


def redrawn(module: Module, draw: int) -> Module:
    """The same module with other random numbers: every part that has a seed gets the seed of this draw; 0 keeps it."""
    made = shallow(module)
    if draw and isinstance(getattr(module, "seed", None), int):
        made.seed = derived_seed(module.seed, "draw", draw)  # type: ignore[arg-type, assignment]
    for name, part in module._modules.items():
        if part is not None and any(isinstance(getattr(inner, "seed", None), int) for inner in part.modules()):
            made._modules[name] = redrawn(part, draw)
    return made


class Redrawn:
    """A random model whose draws follow the image: each call answers with the next of `draws` sets of numbers."""

    def __init__(self, model: nn.Module, draws: int) -> None:
        self.models, self.calls = [redrawn(model, draw) for draw in range(draws)], 0

    def __call__(self, images: Tensor) -> Any:
        """The next draw's answer."""
        self.calls += 1
        return self.models[(self.calls - 1) % len(self.models)](images)


class BPDAEOT(GradientAttack):
    """PGD along the gradient at the purified image, taken as the image's own, averaged over `draws` answers.

    A model without gradient modes has no purifier to pass by; its own gradient is averaged.
    """

    def __init__(self, *, draws: int = 10, **settings: Any) -> None:
        super().__init__(draws=draws, **settings)

    def goal(self, model: Model, images: Tensor, labels: Tensor) -> Goal:
        """A wrong answer, with the gradient of grad_mode "bpda"."""
        seen = with_grad_mode(model, "bpda") if hasattr(model, "grad_mode") else model
        if isinstance(seen, nn.Module) and self.draws > 1:
            seen = Redrawn(seen, self.draws)
        return Misclassify(seen, labels, self.loss, self.targeted)
