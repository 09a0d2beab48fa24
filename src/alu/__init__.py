"""Test-time defence of image classifiers against adversarial attack, judged honestly.

Public names are loaded when first used, so that `alu --help` never waits for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_PLACES = {
    "AluError": "alu.errors",
    "Client": "alu.client",
    "Decision": "alu.decision",
    "Defense": "alu.defense",
    "Evidence": "alu.decision",
    "Outcome": "alu.decision",
    "Result": "alu.evaluation.result",
    "State": "alu.state",
    "ThreatModel": "alu.threat",
    "Workers": "alu.workers",
    "evaluate": "alu.evaluation.evaluate",
    "export": "alu.exporting",
    "fit": "alu.fitting",
    "load": "alu.loading",
    "reproduce": "alu.paper.running",
}
__all__ = [
    "AluError", "Client", "Decision", "Defense", "Evidence", "Outcome", "Result", "State", "ThreatModel", "Workers",
    "__version__",
    "attacks", "data", "detectors", "errors", "evaluate", "export", "exported", "fit", "load", "models", "monitor",
    "purifiers", "report", "reproduce", "training",
]  # fmt: skip

if TYPE_CHECKING:
    from alu import attacks, data, detectors, errors, exported, models, monitor, purifiers, report, training
    from alu.client import Client
    from alu.decision import Decision, Evidence, Outcome
    from alu.defense import Defense
    from alu.errors import AluError
    from alu.evaluation.evaluate import evaluate
    from alu.evaluation.result import Result
    from alu.exporting import export
    from alu.fitting import fit
    from alu.loading import load
    from alu.paper.running import reproduce
    from alu.state import State
    from alu.threat import ThreatModel
    from alu.workers import Workers


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    if name in __all__:
        return import_module(f"alu.{name}")
    raise AttributeError(f"module 'alu' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
