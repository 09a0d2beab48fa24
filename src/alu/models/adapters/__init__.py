"""Classifiers of other libraries, one function for each; and their names, such as hf:FOLDER and onnx:FILE."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from alu.errors import UsageError
from alu.models.adapters.base import Adapter
from alu.models.adapters.huggingface import from_huggingface
from alu.models.adapters.onnx import from_onnx, settings_in
from alu.models.adapters.sklearn import from_sklearn
from alu.models.adapters.vision import from_timm, from_torchvision

__all__ = ["Adapter", "from_huggingface", "from_onnx", "from_sklearn", "from_timm", "from_torchvision"]

PICKLES = {"sklearn": "scikit-learn", "joblib": "scikit-learn", "pickle": "Python"}
"""Prefixes that somebody may try, and what such files come from."""


def is_named(name: str) -> bool:
    """Whether a name begins with the prefix of an adapter, known or refused."""
    prefix, colon, _ = name.partition(":")
    return bool(colon) and prefix in (*PREFIXES, *PICKLES)


def named(name: str) -> Adapter:
    """The classifier that a name with a prefix stands for: "hf:FOLDER", "timm:NAME", "onnx:FILE@imagenet"."""
    prefix, _, rest = name.partition(":")
    if prefix in PICKLES:
        raise UsageError(
            f"{name}: an object of {PICKLES[prefix]} is saved as a pickle, which runs code when it is read, and alu "
            "reads none. Load it in a function of your own that returns alu.models.from_sklearn(estimator), and name "
            "that function: module:function."
        )
    if not rest:
        raise UsageError(f"{name} names nothing. Write {', '.join(EXAMPLES.values())}.")
    return PREFIXES[prefix](rest)


def local_path(name: str) -> Path | None:
    """The file or folder that a name stands for; None for a model of a hub."""
    prefix, _, rest = name.partition(":")
    if prefix == "onnx":
        return Path(_split(rest)[0])
    path = Path(rest)
    return path if path.is_absolute() else None


def moved(name: str, path: Path) -> str:
    """The same name with another file or folder."""
    prefix, _, rest = name.partition(":")
    settings = _split(rest)[1] if prefix == "onnx" else ""
    return f"{prefix}:{path}" + (f"@{settings}" if settings else "")


def _split(rest: str) -> tuple[str, str]:
    """File and settings of an ONNX classifier's name; an @ may also stand in the name of the file."""
    if Path(rest).exists() or "@" not in rest:
        return rest, ""
    file, _, settings = rest.rpartition("@")
    return file, settings


def _onnx(rest: str) -> Adapter:
    file, settings = _split(rest)
    return from_onnx(file, **(settings_in(settings, f"onnx:{rest}") if settings else {}))


PREFIXES: dict[str, Callable[[str], Adapter]] = {"hf": from_huggingface, "timm": from_timm, "onnx": _onnx}
EXAMPLES = {"hf": "hf:FOLDER", "timm": "timm:NAME", "onnx": "onnx:FILE"}
