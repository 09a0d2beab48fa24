"""Part: purifiers, detectors and attacks, which are described by plain values and rebuilt from them; and the user's own
code by name, "module:name"."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any, ClassVar, Self, Unpack, get_args, get_origin, get_type_hints

from torch import nn

from alu.errors import UntrustedError, UsageError, nearest
from alu.models.architecture import rebuild as rebuild_network
from alu.models.cards import bundled_name

PLAIN = (str, int, float, bool, type(None))
"""Types that JSON has."""


class Part:
    """Base of purifiers, detectors and attacks: settings are the constructor's arguments, stored under the same names.

    A subclass outside the package is named by its import path, "module:Class"; rebuilding one runs its code, so that
    the user must trust it.
    """

    family: ClassVar[str] = "part"
    """What the subclasses are called; the class that sets it has the list of them in `known`."""
    known: ClassVar[dict[str, type[Any]]] = {}

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "family" in vars(cls):
            cls.known = {}
        else:
            cls.known[part_name(cls)] = cls

    def description(self) -> dict[str, Any]:
        """Plain values from which the part can be rebuilt, without what it has learned."""
        described: dict[str, Any] = {"name": part_name(type(self))}
        for name in settings_of(type(self)):
            if not hasattr(self, name):
                raise UsageError(
                    f"{type(self).__name__} cannot be saved: its constructor takes {name!r}, but the object has no "
                    f"attribute of that name. Write self.{name} = {name} in __init__."
                )
            described[name] = _described(getattr(self, name), type(self).__name__)
        return described

    @classmethod
    def from_description(cls, settings: dict[str, Any], trust: bool = False) -> Self:
        """A new part with these settings; what it has learned is loaded later."""
        return cls(**{name: _rebuilt(value) for name, value in settings.items()})

    @classmethod
    def rebuild(cls, description: dict[str, Any], trust: bool = False) -> Self:
        """The part that a description stands for; one from outside the package only with `trust`."""
        settings = dict(description)
        name = str(settings.pop("name", None))
        kind = _imported(cls, name, trust) if ":" in name else cls.known.get(name)
        if kind is None:
            known = [known for known, kind in cls.known.items() if not inspect.isabstract(kind)]
            raise UsageError(f"alu has no {cls.family} {name!r}. {nearest(name, known)}")
        part: Self = kind.from_description(settings, trust)
        return part


def part_name(kind: type[Any]) -> str:
    """The class's name, or its import path if it is not part of this package."""
    own = kind.__module__.split(".")[0] == __name__.split(".")[0]
    return kind.__name__ if own else f"{kind.__module__}:{kind.__qualname__}"


def settings_of(kind: type[Any]) -> dict[str, Any]:
    """The arguments of a constructor by name, with their types. If it passes others on with `**`, also those of the
    typed dictionary that annotates them, or else those of its parent classes."""
    arguments: dict[str, Any] = {}
    for part in kind.__mro__:
        if "__init__" not in vars(part):
            continue
        parameters = list(inspect.signature(vars(part)["__init__"]).parameters.values())[1:]
        types = _types(vars(part)["__init__"])
        named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        own = {item.name: types.get(item.name, Any) for item in parameters if item.kind in named}
        arguments = own | arguments  # a subclass overrides its parents
        passed_on = next((item for item in parameters if item.kind is inspect.Parameter.VAR_KEYWORD), None)
        if passed_on is None:
            break
        if get_origin(types.get(passed_on.name)) is Unpack:
            return get_type_hints(get_args(types[passed_on.name])[0]) | arguments
    return arguments


def _types(function: Any) -> dict[str, Any]:
    """The annotations of a function; none if a name in them cannot be resolved, as may be in a user's own module."""
    try:
        return get_type_hints(function)
    except NameError:
        return {}


def refuse_lost(part: nn.Module) -> None:
    """Refuse to save parts whose class no other process can import: from a script, a notebook, or inside a function."""
    for inner in part.modules():
        kind = type(inner)
        if not isinstance(inner, Part) or ":" not in part_name(kind):
            continue
        place: Any = sys.modules.get(kind.__module__)
        for name in kind.__qualname__.split("."):
            place = getattr(place, name, None)
        if kind.__module__ == "__main__" or place is not kind:
            raise UsageError(
                f"{kind.__name__} cannot be saved: it is defined in {kind.__module__}, which another process cannot "
                "import. Move the class into a file of its own and import it from there."
            )


def _imported(family: type[Part], name: str, trust: bool) -> type[Any]:
    if not trust:
        raise UntrustedError(
            f"This would import the {family.family} {name}, which runs that code. Pass trust=True if the code is yours."
        )
    kind = import_named(name, f"The {family.family}")
    if not (isinstance(kind, type) and issubclass(kind, family)):
        raise UsageError(f"{name} is not a {family.family}: it is not a subclass of alu's {family.__name__}.")
    return kind


def _described(value: Any, who: str) -> Any:
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, tuple | list):
        return [_described(item, who) for item in value]
    if isinstance(value, nn.Module):
        name = bundled_name(value)
        if name is not None or hasattr(value, "architecture"):
            return name or value.architecture
        raise UsageError(
            f"{who} around {type(value).__name__} cannot be saved: alu cannot rebuild that class. Use a network of "
            "alu.models, or keep the defence in memory."
        )
    raise UsageError(f"{who} cannot be saved: a setting of type {type(value).__name__} is not a plain value.")


def _rebuilt(value: Any) -> Any:
    """A setting; a network that is described by its architecture is built, its weights are loaded later."""
    return rebuild_network(value) if isinstance(value, dict) else value


def import_named(spec: str, what: str) -> Any:
    """The object "module:name"; the current folder is searched first, as `python -m` does."""
    module_name, colon, name = spec.partition(":")
    if not colon or not module_name or not name:
        raise UsageError(f"{what} is given as module:name, such as my_package.my_module:build, not as {spec!r}.")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        place: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a script that parses arguments may end the process
        dotted = module_name.removesuffix(".py").strip("./").replace("/", ".")
        advice = ""
        if dotted != module_name:
            advice = f" A module is written with dots, not as a path: {dotted}:{name}."
        elif isinstance(error, ModuleNotFoundError):
            advice = f" Run this from the folder that holds {module_name}, or add that folder to PYTHONPATH."
        raise UsageError(f"Cannot import {module_name} for {what.lower()} {spec}: {error}.{advice}") from error
    for part in name.split("."):
        place = getattr(place, part, None)
    if place is None:
        raise UsageError(f"{module_name} has no {name}, so {what.lower()} {spec} cannot be loaded.")
    return place


def call_factory(spec: str) -> Callable[..., Any]:
    """The classifier that "module:function" returns, in eval mode."""
    maker = import_named(spec, "The classifier")
    if not callable(maker):
        raise UsageError(f"{spec} is not a function that returns a classifier; it is of type {type(maker).__name__}.")
    try:
        built = maker()
    except (Exception, SystemExit) as error:
        raise UsageError(f"{spec} failed to build the classifier: {type(error).__name__}: {error}.") from error
    if not callable(built):
        raise UsageError(f"{spec} returned {type(built).__name__}, which cannot be called as a classifier.")
    if hasattr(built, "eval"):
        built.eval()
    classifier: Callable[..., Any] = built
    return classifier
