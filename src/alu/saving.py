"""A defence as a folder: defense.json (what it is) and weights.safetensors (what it learned)."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from alu import detectors, purifiers
from alu.errors import AluError, StorageError, UntrustedError, UsageError
from alu.models.cards import bundled_name, weight_hash
from alu.models.cards import load as load_model
from alu.storage import read_json, read_tensors, replacing_folder, write_json, write_tensors

if TYPE_CHECKING:
    from alu.defense import Defense

FORMAT = 1


def save(defense: Defense, path: Path, factory: str | None) -> None:
    """Write the folder; it appears whole or not at all."""
    facts = {
        "format": FORMAT,
        "classifier": _classifier_record(defense.classifier, factory),
        "purifier": defense.purifier.description(),
        "detector": defense.detector.description() if defense.detector is not None else None,
        "rule": defense.rule,
        "reference": defense.reference,
        "grad_mode": defense.grad_mode,
        "shape": list(defense.shape),
        "classes": list(defense.classes),
    }
    tensors = {f"purifier.{name}": tensor for name, tensor in defense.purifier.state_dict().items()}
    if defense.detector is not None and defense.detector.calibrated:
        tensors |= {f"detector.{name}": tensor for name, tensor in defense.detector.fitted().items()}
    with replacing_folder(path, is_defense) as folder:
        write_tensors(folder / "weights.safetensors", tensors)
        write_json(folder / "defense.json", facts)


def is_defense(path: Path) -> bool:
    """Whether a folder holds a saved defence."""
    return (path / "defense.json").is_file()


def load(path: Path, classifier: Any, trust: bool) -> Defense:
    """Read the folder; a classifier that differs from the calibrated one is refused."""
    from alu.defense import Defense

    if not is_defense(path):
        raise StorageError(f"{path} is not a saved defence: it has no defense.json. `alu fit` writes one.")
    facts = read_json(path / "defense.json")
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise StorageError(f"{path} was written in a format this version of alu does not read. Save it again.")
    tensors = read_tensors(path / "weights.safetensors")
    try:
        purifier = purifiers.rebuild(facts["purifier"])
        purifier.load_state_dict(_part(tensors, "purifier."))
        detector = detectors.rebuild(facts["detector"]) if facts["detector"] else None
        fitted = _part(tensors, "detector.")
        if detector is not None and fitted:
            detector.restore(fitted)
        made = _classifier(facts["classifier"], classifier, trust, path)
        defense = Defense(made, purifier, detector, facts["rule"], facts["reference"], facts["grad_mode"])
        defense.shape, defense.classes = tuple(facts["shape"]), tuple(facts["classes"])
        return defense
    except AluError:
        raise
    except (KeyError, TypeError, RuntimeError) as error:
        raise StorageError(f"{path} is damaged: {type(error).__name__} {error}. Save the defence again.") from error


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _classifier_record(classifier: Any, factory: str | None) -> dict[str, Any]:
    name = bundled_name(classifier)
    if name is not None:
        return {"kind": "bundled", "name": name}
    digest = weight_hash(classifier) if isinstance(classifier, nn.Module) else None
    if factory is not None:
        return {"kind": "factory", "factory": factory, "sha256": digest}
    return {"kind": "given", "type": type(classifier).__name__, "sha256": digest}


def _classifier(record: dict[str, Any], given: Any, trust: bool, path: Path) -> Any:
    if given is None and record["kind"] == "bundled":
        return load_model(record["name"])
    if given is None and record["kind"] == "factory":
        if not trust:
            raise UntrustedError(
                f"{path} wants to import its classifier from {record['factory']}, which runs that code. "
                "Say trust=True (command: --trust) if it is yours, or pass the classifier yourself."
            )
        given = call_factory(record["factory"])
    if given is None:
        raise UsageError(
            f"{path} was saved around a classifier of your own ({record['type']}). "
            "Pass it: Defense.load(path, classifier=...)."
        )
    expected = record.get("sha256") if record["kind"] != "bundled" else weight_hash(load_model(record["name"]))
    if expected is not None and (not isinstance(given, nn.Module) or weight_hash(given) != expected):
        raise StorageError(
            f"The classifier given is not the one {path} was calibrated with: its weights differ. "
            "Pass the same weights, or calibrate a new defence."
        )
    return given


def call_factory(spec: str) -> Callable[[Tensor], Any]:
    """The classifier that "module:function" makes; the current folder is searched first, as `python -m` does."""
    module_name, colon, function = spec.partition(":")
    if not colon or not module_name or not function:
        raise UsageError(f"A classifier is named module:function, such as my_package.my_module:build; {spec!r} is not.")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a script that reads its own arguments ends the process
        dotted = module_name.removesuffix(".py").strip("./").replace("/", ".")
        advice = f" A module is written with dots, not as a path: {dotted}:{function}." if dotted != module_name else ""
        if not advice and isinstance(error, ModuleNotFoundError):
            advice = f" Run the command from the folder that holds {module_name}, or add that folder to PYTHONPATH."
        raise UsageError(f"Cannot import {module_name} for the classifier {spec}: {error}.{advice}") from error
    maker = getattr(module, function, None)
    if not callable(maker):
        raise UsageError(f"{module_name} has no function {function}; the classifier {spec} cannot be made.")
    try:
        made = maker()
    except (Exception, SystemExit) as error:
        raise UsageError(f"{spec} failed to make the classifier: {type(error).__name__}: {error}.") from error
    if not callable(made):
        raise UsageError(f"{spec} returned {type(made).__name__}, which is not a classifier that can be called.")
    if isinstance(made, nn.Module):
        made.eval()
    classifier: Callable[[Tensor], Any] = made
    return classifier
