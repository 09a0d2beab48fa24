"""Architectures by name: a network stores how it was built, so that it can be rebuilt for a file of weights."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from torch import nn

from alu.errors import UsageError, nearest

Model = TypeVar("Model", bound=nn.Module)
BUILDERS: dict[str, Callable[..., nn.Module]] = {}


def architecture(builder: Callable[..., Model]) -> Callable[..., Model]:
    """Register a builder; its networks get `.architecture`, a JSON description from which they can be rebuilt."""
    signature = inspect.signature(builder)
    name = builder.__name__

    @functools.wraps(builder)
    def build_and_remember(*args: Any, **kwargs: Any) -> Model:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        model = builder(*args, **kwargs)
        settings = {key: _plain(value) for key, value in bound.arguments.items()}
        model.architecture = {"name": name, **settings}  # type: ignore[assignment]
        return model

    BUILDERS[name] = build_and_remember
    return build_and_remember


def rebuild(description: dict[str, Any]) -> nn.Module:
    """The untrained network of a description.

    Parameters
    ----------
    description
        A builder's name and settings, as in the `architecture` of a network or of its card.

    Examples
    --------
    >>> network = alu.models.rebuild({"name": "vae", "latent": 4})
    """
    settings = dict(description)
    name = settings.pop("name", None)
    if name not in BUILDERS:
        raise UsageError(f"alu has no architecture {name!r}. {nearest(str(name), list(BUILDERS))}")
    return BUILDERS[name](**settings)


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, (tuple, list)) else value
