"""Code of the user's own by name: what "module:name" stands for, and the classifier that a function of theirs makes."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from alu.errors import UsageError


def import_named(spec: str, what: str) -> Any:
    """What "module:name" stands for; the current folder is searched first, as `python -m` does."""
    module_name, colon, name = spec.partition(":")
    if not colon or not module_name or not name:
        raise UsageError(f"{what} is named module:name, such as my_package.my_module:build; {spec!r} is not.")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        place: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a script that reads its own arguments ends the process
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
        raise UsageError(f"{module_name} has no {name}, so {what.lower()} {spec} cannot be made.")
    return place


def call_factory(spec: str) -> Callable[..., Any]:
    """The classifier that "module:function" makes, in eval mode."""
    maker = import_named(spec, "The classifier")
    if not callable(maker):
        raise UsageError(f"{spec} is no function that makes a classifier; it is of type {type(maker).__name__}.")
    try:
        made = maker()
    except (Exception, SystemExit) as error:
        raise UsageError(f"{spec} failed to make the classifier: {type(error).__name__}: {error}.") from error
    if not callable(made):
        raise UsageError(f"{spec} returned {type(made).__name__}, which is not a classifier that can be called.")
    if hasattr(made, "eval"):
        made.eval()
    classifier: Callable[..., Any] = made
    return classifier
