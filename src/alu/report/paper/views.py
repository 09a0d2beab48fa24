"""Views: how each experiment is shown."""

from __future__ import annotations

from collections.abc import Callable

from alu.report.paper import artefacts, findings, plots, sweeps, table3, tables, threats
from alu.report.paper.results import Results
from alu.report.paper.shape import Shown

VIEWS: dict[str, Callable[[Results], list[Shown]]] = {
    "table1": tables.table1,
    "table2": tables.table2,
    "table3": table3.table3,
    "histogram": plots.scores,
    "learning-rate": sweeps.learning_rate,
    "iterations": sweeps.iterations,
    "timing": findings.timing,
    "logit-change": findings.logit_change,
    "features": findings.features,
    "convergence": plots.convergence,
    "pattern-cost": findings.pattern_cost,
    "one-step": findings.one_step,
    "bpda": findings.bpda,
    "artefacts": artefacts.artefacts,
    "threats": threats.threats,
    "each-attack": findings.each_attack,
    "whole-suite": findings.whole_suite,
}
