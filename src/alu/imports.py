"""The user's own code by name: the object "module:name", and the classifier that "module:function" returns."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from alu.errors import UsageError


def import_named(spec: str, what: str) -> Any:
    """The object "module:name"; the current folder is searched first, as `python -m` does."""
    module_name, colon, name = spec.partition(":")
    if not colon or not module_name or not name:
        raise UsageError(f"{what} is named module:name, such as my_package.my_module:build; {spec!r} is not.")
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
