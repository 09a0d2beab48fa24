"""Every experiment that `alu reproduce` knows, in the order of the paper. No torch here."""

from __future__ import annotations

from typing import Any

from alu.errors import UsageError, nearest
from alu.paper import (
    artefacts,
    bpda,
    convergence,
    each_attack,
    features,
    histogram,
    iterations,
    learning_rate,
    logit_change,
    one_step,
    pattern_cost,
    table1,
    table2,
    table3,
    threats,
    timing,
    whole_suite,
)
from alu.paper.base import Experiment
from alu.paper.claims import Claim, Verdict
from alu.paper.store import Results

_MODULES = (
    table1, table2, table3, histogram, learning_rate, iterations, timing, logit_change, features, convergence,
    pattern_cost, one_step, bpda, artefacts, threats, each_attack, whole_suite,
)  # fmt: skip
EXPERIMENTS: dict[str, Experiment[Any]] = {module.EXPERIMENT.name: module.EXPERIMENT for module in _MODULES}


def find(name: str) -> Experiment[Any]:
    """The experiment of this name."""
    if name not in EXPERIMENTS:
        raise UsageError(f"There is no experiment {name!r}. {nearest(name, [*EXPERIMENTS, 'all', 'list'])}")
    return EXPERIMENTS[name]


def verdicts(results: Results) -> list[tuple[Claim, Verdict]]:
    """Every claim of the paper with what became of it."""
    return [pair for experiment in EXPERIMENTS.values() for pair in experiment.verdicts(results)]
