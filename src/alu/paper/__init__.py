"""The paper, measured again: one file for each of its tables and figures. Here all of them by name, in its order.

Torch is imported only when a cell is measured.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from alu.errors import UsageError, nearest
from alu.paper.base import Experiment
from alu.paper.claims import Claim, Verdict
from alu.paper.store import Results

MODULES = (
    "table1", "table2", "table3", "rebreak", "histogram", "learning_rate", "iterations", "encoder", "timing",
    "logit_change", "features", "convergence", "pattern_cost", "one_step", "bpda", "artefacts", "threats", "adaptive",
    "robust_base", "check", "certificates", "graded", "mixed",
)  # fmt: skip
_EVERY = [value for module in MODULES for value in vars(import_module(f"alu.paper.{module}")).values()]
EXPERIMENTS: dict[str, Experiment[Any]] = {value.name: value for value in _EVERY if isinstance(value, Experiment)}


def find(name: str) -> Experiment[Any]:
    """The experiment of this name."""
    if name not in EXPERIMENTS:
        raise UsageError(f"There is no experiment {name!r}. {nearest(name, [*EXPERIMENTS, 'all', 'list'])}")
    return EXPERIMENTS[name]


def verdicts(results: Results) -> list[tuple[Claim, Verdict]]:
    """Every claim of the paper with what became of it."""
    return [pair for experiment in EXPERIMENTS.values() for pair in experiment.verdicts(results)]
