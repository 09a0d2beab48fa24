"""Copies of a model that share its weights: with another gradient, or with other random numbers."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from alu.errors import UsageError
from alu.rng import derived_seed

RESUBMISSIONS = 10
"""How often an image is sent to a random defence; one wrong answer is enough."""
Module = TypeVar("Module", bound=nn.Module)


def shallow(module: Module) -> Module:
    """A copy that shares every weight but whose attributes and parts can be replaced."""
    copied = copy.copy(module)
    copied.__dict__["_modules"] = dict(module._modules)
    return copied


def with_grad_mode(defense: Any, grad_mode: str) -> Any:
    """A copy of a defence with another gradient mode; the two share their parts, and the given one stays as it is.

    Parameters
    ----------
    defense
        The `alu.Defense`.
    grad_mode
        "blind", "bpda", "surrogate", "unrolled" or "implicit".

    Examples
    --------
    >>> alu.attacks.with_grad_mode(defense, "bpda").grad_mode
    'bpda'
    """
    if not hasattr(defense, "grad_mode"):
        raise UsageError(
            f"with_grad_mode needs an alu.Defense; {type(defense).__name__} has no grad_mode. "
            "Wrap it: alu.Defense(classifier, purifier, detector)."
        )
    copied = shallow(defense)
    copied.grad_mode = grad_mode
    return copied


def redrawn(module: Module, draw: int) -> Module:
    """A copy with other random numbers: every part that has a seed gets the seed of this draw; draw 0 keeps them.

    A module whose random parts are not submodules must have a method `redrawn(draw)` that does this.
    """
    if hasattr(module, "redrawn"):
        own: Module = module.redrawn(draw)  # type: ignore[operator]
        return own
    copied = shallow(module)
    if draw and isinstance(getattr(module, "seed", None), int):
        copied.seed = derived_seed(module.seed, "draw", draw)  # type: ignore[arg-type, assignment]
    for name, part in module._modules.items():
        if part is not None and any(isinstance(getattr(inner, "seed", None), int) for inner in part.modules()):
            copied._modules[name] = redrawn(part, draw)
    return copied


class Redrawn:
    """A random model whose draw the image and a seed fix: each call with a gradient uses the next of `draws` seeds.

    The deployed seed is the last of each round, because the library judges success by the last call. Calls without a
    gradient always use the deployed seed.
    """

    def __init__(self, model: nn.Module, draws: int) -> None:
        self.models, self.calls = draws_of(model, draws), 0

    def __call__(self, images: Tensor) -> Any:
        """The output of the next draw or, without a gradient, of the deployed one."""
        if not (torch.is_grad_enabled() and images.requires_grad):
            return self.models[0](images)
        self.calls += 1
        return self.models[self.calls % len(self.models)](images)


def draws_of(model: Any, draws: int) -> list[Any]:
    """The model once for each draw, the deployed one first; a model that is not a module must draw by itself."""
    others = range(1, draws)
    return [model, *(redrawn(model, draw) if isinstance(model, nn.Module) else model for draw in others)]
