"""Catalog: every experiment that `alu reproduce` knows, in the order of the paper."""

from __future__ import annotations

from alu.errors import UsageError, nearest
from alu.experiments import (
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
from alu.experiments.base import Experiment

_MODULES = (
    table1, table2, table3, histogram, learning_rate, iterations, timing, logit_change, features, convergence,
    pattern_cost, one_step, bpda, artefacts, threats, each_attack, whole_suite,
)  # fmt: skip
EXPERIMENTS: dict[str, Experiment] = {module.EXPERIMENT.name: module.EXPERIMENT for module in _MODULES}


def find(name: str) -> Experiment:
    """The experiment of this name."""
    if name not in EXPERIMENTS:
        raise UsageError(f"There is no experiment {name!r}. {nearest(name, [*EXPERIMENTS, 'all', 'list'])}")
    return EXPERIMENTS[name]
