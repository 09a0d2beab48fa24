"""Copies of a model that share its weights: with another gradient, or with other random numbers."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from alu.errors import UsageError
from alu.rng import derived_seed

RESUBMISSIONS = 10
"""How often an image is sent to a random defence; the worst answer counts."""
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
    """The same module with other random numbers: every part that has a seed gets the seed of this draw; 0 keeps it.

    A module that keeps random parts out of torch's sight says itself how: by a method `redrawn(draw)`.
    """
    if hasattr(module, "redrawn"):
        own: Module = module.redrawn(draw)  # type: ignore[operator]
        return own
    made = shallow(module)
    if draw and isinstance(getattr(module, "seed", None), int):
        made.seed = derived_seed(module.seed, "draw", draw)  # type: ignore[arg-type, assignment]
    for name, part in module._modules.items():
        if part is not None and any(isinstance(getattr(inner, "seed", None), int) for inner in part.modules()):
            made._modules[name] = redrawn(part, draw)
    return made


class Redrawn:
    """A random model whose draws follow the image: each gradient sees the next of `draws` sets of numbers.

    The deployed one is the last of each round, because the library judges success by the last call; it alone answers
    who wants no gradient.
    """

    def __init__(self, model: nn.Module, draws: int) -> None:
        self.models, self.calls = draws_of(model, draws), 0

    def __call__(self, images: Tensor) -> Any:
        """The next draw's answer, or the deployed one's."""
        if not (torch.is_grad_enabled() and images.requires_grad):
            return self.models[0](images)
        self.calls += 1
        return self.models[self.calls % len(self.models)](images)


def draws_of(model: Any, draws: int) -> list[Any]:
    """The model as each of so many draws has it, the deployed one first; what is no module draws by itself."""
    others = range(1, draws)
    return [model, *(redrawn(model, draw) if isinstance(model, nn.Module) else model for draw in others)]
