"""Options that several commands share, written once."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from alu.errors import UsageError

if TYPE_CHECKING:
    import torch

    from alu.threat import ThreatModel

Seed = Annotated[int, typer.Option(help="Seed of every random draw.")]
Norm = Annotated[str, typer.Option(help="Linf or L2.")]
Eps = Annotated[
    str | None, typer.Option(help="How far an image may be moved: 8/255 by default, for L2 0.5.", show_default=False)
]
Device = Annotated[str, typer.Option(help="Where to compute: cpu, cuda, cuda:1, mps.")]


def checked_device(device: str) -> torch.device:
    """The device of this name, if it is there and computes."""
    from alu.check import find_device

    return find_device(device)


def parse_eps(text: str) -> float:
    """A number from "8/255" or "0.03"."""
    above, slash, below = text.partition("/")
    try:
        value = float(above) / float(below) if slash else float(above)
    except (ValueError, ZeroDivisionError):
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"--eps is a number or a fraction such as 8/255; {text!r} is neither.")
    return value


def parse_threat(norm: str, eps: str | None) -> ThreatModel:
    """The threat model; eps is a number or a fraction, and without one the usual one of the norm."""
    from alu.threat import USUAL, ThreatModel

    return ThreatModel(cast(Any, norm), parse_eps(eps) if eps is not None else USUAL.get(norm, 0.0))


def parse_settings(words: list[str], example: str) -> dict[str, Any]:
    """Settings from KEY=VALUE words; a value is a number, a fraction, true, false, a list, or text."""
    settings: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UsageError(f"--set {word}: expected KEY=VALUE, such as --set {example}.")
        settings[key] = _value(value)
    return settings


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return parse_eps(text) if re.fullmatch(r"[\d.]+/[\d.]+", text) else text
