"""Part: what a defence is made of; described by plain values and made again from them, the user's own parts too."""

from __future__ import annotations

import inspect
import sys
from typing import Any, ClassVar, Self, Unpack, get_args, get_origin, get_type_hints

from torch import nn

from alu.errors import UntrustedError, UsageError, nearest
from alu.imports import import_named
from alu.models.architecture import rebuild as rebuild_network
from alu.models.cards import bundled_name

PLAIN = (str, int, float, bool, type(None))


class Part:
    """Base of purifiers, detectors and attacks: settings are the constructor's arguments, stored under the same names.

    A subclass outside the package is known by its import path, "module:Class"; making one again runs its code, so that
    the user must trust it.
    """

    family: ClassVar[str] = "part"
    """What the subclasses are called; the first class that sets it keeps the list of them."""
    known: ClassVar[dict[str, type[Any]]] = {}

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "family" in vars(cls):
            cls.known = {}
        else:
            cls.known[part_name(cls)] = cls

    def description(self) -> dict[str, Any]:
        """Plain values that the part can be made again from; what it has learned apart."""
        made: dict[str, Any] = {"name": part_name(type(self))}
        for name in settings_of(type(self)):
            if not hasattr(self, name):
                raise UsageError(
                    f"{type(self).__name__} cannot be saved: its constructor takes {name!r}, but the object has no "
                    f"attribute of that name. Write self.{name} = {name} in __init__."
                )
            made[name] = _described(getattr(self, name), type(self).__name__)
        return made

    @classmethod
    def from_description(cls, settings: dict[str, Any], trust: bool = False) -> Self:
        """The part with these settings, before what it has learned is loaded."""
        return cls(**{name: _made(value) for name, value in settings.items()})

    @classmethod
    def rebuild(cls, description: dict[str, Any], trust: bool = False) -> Self:
        """The part of this family that a description stands for; one from outside the package only with `trust`."""
        settings = dict(description)
        name = str(settings.pop("name", None))
        kind = _imported(cls, name, trust) if ":" in name else cls.known.get(name)
        if kind is None:
            known = [known for known, kind in cls.known.items() if not inspect.isabstract(kind)]
            raise UsageError(f"alu has no {cls.family} {name!r}. {nearest(name, known)}")
        made: Self = kind.from_description(settings, trust)
        return made


def part_name(kind: type[Any]) -> str:
    """The class's name, or its import path where it is not the package's."""
    own = kind.__module__.split(".")[0] == __name__.split(".")[0]
    return kind.__name__ if own else f"{kind.__module__}:{kind.__qualname__}"


def settings_of(kind: type[Any]) -> dict[str, Any]:
    """The arguments of a constructor by name, with their types. Where it passes others on with `**`, those of the typed
    dictionary that it names, or else its parents'."""
    found: dict[str, Any] = {}
    for part in kind.__mro__:
        if "__init__" not in vars(part):
            continue
        parameters = list(inspect.signature(vars(part)["__init__"]).parameters.values())[1:]
        types = _types(vars(part)["__init__"])
        named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        own = {item.name: types.get(item.name, Any) for item in parameters if item.kind in named}
        found = own | found  # a subclass knows better
        passed_on = next((item for item in parameters if item.kind is inspect.Parameter.VAR_KEYWORD), None)
        if passed_on is None:
            break
        if get_origin(types.get(passed_on.name)) is Unpack:
            return get_type_hints(get_args(types[passed_on.name])[0]) | found
    return found


def _types(function: Any) -> dict[str, Any]:
    """The annotations of a function; none where a name in them cannot be found, as in somebody's own module."""
    try:
        return get_type_hints(function)
    except NameError:
        return {}


def refuse_lost(part: nn.Module) -> None:
    """Refuse to save parts whose class no other process could import: of a script, a notebook, or inside a function."""
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
        raise UsageError(f"{name} is not a {family.family}: it is no subclass of alu's {family.__name__}.")
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
    raise UsageError(f"{who} cannot be saved: a setting of type {type(value).__name__} is no plain value.")


def _made(value: Any) -> Any:
    """A network that is described by its architecture is built; its weights follow."""
    return rebuild_network(value) if isinstance(value, dict) else value
