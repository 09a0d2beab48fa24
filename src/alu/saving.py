"""A defence as a folder: defense.json (what it is) and weights.safetensors (what it learned)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from alu.detectors import Detector
from alu.errors import AluError, StorageError, UntrustedError, UsageError
from alu.exported import is_export
from alu.models import adapters
from alu.models.cards import bundled_name, weight_hash
from alu.models.cards import load as load_model
from alu.parts import call_factory, refuse_lost
from alu.purifiers import Purifier
from alu.storage import read_checked, read_tensors, replacing_folder, sha256, write_checked, write_tensors

if TYPE_CHECKING:
    from alu.defense import Defense

FORMAT = 2
READABLE = "a defence in the format of this version of alu; fit or save it again"
ADVICE = "Copy the folder again, or fit it again; change settings in Python, before saving."


def save(defense: Defense, path: Path, factory: str | None) -> None:
    """Write the folder; it appears whole or not at all."""
    refuse_lost(defense)
    facts = {
        "format": FORMAT,
        "classifier": classifier_record(defense.classifier, path, factory),
        "purifier": defense.purifier.description(),
        "detector": defense.detector.description() if defense.detector is not None else None,
        "rule": defense.rule,
        "reference": defense.reference,
        "grad_mode": defense.grad_mode,
        "eps": defense.residual.eps,
        "suspicious": defense.suspicious,
        "shape": list(defense.shape),
        "classes": list(defense.classes),
    }
    tensors = {f"purifier.{name}": tensor for name, tensor in defense.purifier.state_dict().items()}
    if defense.detector is not None and defense.detector.calibrated:
        tensors |= {f"detector.{name}": tensor for name, tensor in defense.detector.state_dict().items()}
    if defense.residual.calibrated:
        tensors |= {f"residual.{name}": tensor for name, tensor in defense.residual.state_dict().items()}
    with replacing_folder(path, is_defense) as folder:
        write_tensors(folder / "weights.safetensors", tensors)
        facts["weights_sha256"] = sha256(folder / "weights.safetensors")
        write_checked(folder / "defense.json", facts)


def is_defense(path: Path) -> bool:
    """Whether a folder holds a saved defence."""
    return (path / "defense.json").is_file()


def read(
    path: Path, classifier: Any, trust: bool
) -> tuple[dict[str, Any], dict[str, Tensor], tuple[int, ...], tuple[str, ...]]:
    """The arguments of the saved defence, the limits of its second test, the shape it was calibrated on, and its
    classes; a classifier that differs from the calibrated one is refused."""
    if is_export(path):
        raise UsageError(f"{path} is an exported defence, which answers without torch: alu.exported.load reads it.")
    if not is_defense(path):
        raise StorageError(f"{path} is not a saved defence: it has no defense.json. `alu fit` writes one.")
    facts = read_checked(path / "defense.json", READABLE, ADVICE)
    if facts.get("format") != FORMAT:
        raise StorageError(f"{path / 'defense.json'} is not {READABLE}.")
    weights = path / "weights.safetensors"
    if sha256(weights) != facts["weights_sha256"]:
        raise StorageError(f"{weights} was changed after it was written: its checksum does not match. {ADVICE}")
    tensors = read_tensors(weights)
    try:
        purifier = Purifier.rebuild(facts["purifier"], trust)
        purifier.load_state_dict(_part(tensors, "purifier."))
        detector = Detector.rebuild(facts["detector"], trust) if facts["detector"] else None
        fitted = _part(tensors, "detector.")
        if detector is not None and fitted:
            detector.load_state_dict(fitted)
        settings = {name: facts[name] for name in ("rule", "reference", "grad_mode")}
        settings |= {name: facts[name] for name in ("eps", "suspicious") if name in facts}  # not in older folders
        rebuilt = _classifier(facts["classifier"], classifier, trust, path)
        arguments = {"classifier": rebuilt, "purifier": purifier, "detector": detector, **settings}
        return arguments, _part(tensors, "residual."), tuple(facts["shape"]), tuple(facts["classes"])
    except AluError:
        raise
    except (KeyError, TypeError, RuntimeError) as error:
        raise StorageError(f"{path} is damaged: {type(error).__name__} {error}. Save the defence again.") from error


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def classifier_record(classifier: Any, path: Path, factory: str | None = None) -> dict[str, Any]:
    """Which classifier it is, and the hash of its weights, as plain values; `path` is where they will be written."""
    name = bundled_name(classifier)
    if name is not None:
        return {"kind": "bundled", "name": name}
    digest = weight_hash(classifier) if isinstance(classifier, nn.Module) else None
    if factory is not None and not adapters.is_named(factory):
        return {"kind": "factory", "factory": factory, "sha256": digest}
    named = getattr(classifier, "source", None) or factory
    if named is not None:
        place = adapters.local_path(named)
        # A folder that is moved together with its classifier finds it again.
        beside = None if place is None else os.path.relpath(place, path.resolve())
        return {"kind": "named", "name": named, "beside": beside, "sha256": digest}
    return {"kind": "given", "type": type(classifier).__name__, "sha256": digest}


def _classifier(record: dict[str, Any], given: Any, trust: bool, path: Path) -> Any:
    if given is None and record["kind"] == "bundled":
        return load_model(record["name"])
    if given is None and record["kind"] == "factory":
        if not trust:
            raise UntrustedError(
                f"Loading {path} would import its classifier from {record['factory']}, which runs that code. "
                "Pass trust=True if the code is yours, or pass the classifier yourself."
            )
        given = call_factory(record["factory"])
    if given is None and record["kind"] == "named":
        given = adapters.named(_found(record, trust, path))
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


def _found(record: dict[str, Any], trust: bool, path: Path) -> str:
    """The name of a classifier of another library, with the place where its files are now."""
    name: str = record["name"]
    place = adapters.local_path(name)
    if place is None:
        if not trust:
            raise UntrustedError(
                f"Loading {path} may fetch its classifier {name} from a hub. Pass trust=True if you want that, or pass "
                "the classifier yourself."
            )
        return name
    moved = path.resolve() / record["beside"]
    if not place.exists() and not moved.exists():
        raise StorageError(
            f"{path} was saved around {name}, which is not there any more. Put it back, or pass the classifier from "
            "where it is now (classifier=)."
        )
    return name if place.exists() else adapters.moved(name, moved)
