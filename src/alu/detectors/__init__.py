"""Detectors: evidence in, suspicion score and p-value out."""

from typing import Any

from alu.detectors.base import Detector
from alu.detectors.combined import Combined
from alu.detectors.scores import Disagreement, LogitPeak, LogitShift, ReconstructionError
from alu.errors import UsageError, nearest

DETECTORS: dict[str, type[Detector]] = {
    kind.__name__: kind for kind in (LogitShift, LogitPeak, ReconstructionError, Disagreement, Combined)
}

__all__ = [
    "DETECTORS",
    "Combined",
    "Detector",
    "Disagreement",
    "LogitPeak",
    "LogitShift",
    "ReconstructionError",
    "rebuild",
]


def rebuild(description: dict[str, Any]) -> Detector:
    """The detector that a description stands for; the caller loads what it was calibrated with."""
    settings = dict(description)
    name = str(settings.pop("name", None))
    if name not in DETECTORS:
        raise UsageError(f"alu has no detector {name!r}. {nearest(name, list(DETECTORS))}")
    return DETECTORS[name].from_description(settings)
