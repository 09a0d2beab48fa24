"""Every experiment is whole: its keys are its own, both forms have sizes, and a cell of it runs."""

from __future__ import annotations

import json

import pytest

from alu.errors import UsageError
from alu.paper import EXPERIMENTS, find
from alu.paper.store import Results
from alu.paper.views import Table
from alu.paper.workbench import Workbench

TINY = {
    "histogram": "clean", "threats": "purified/oblivious", "each-attack": "cifar10-pca, input/Decoy",
    "whole-suite": "cifar10-pca, input/quick", "table1": "clean", "iterations": "encoder",
    "learning-rate": "gd, sse, 0.01", "convergence": "pgd-20 on f", "features": "cifar10-standard",
    "table2": "cifar10-standard/clean", "table3": "Blur + ALU/pgd-20 on f", "bpda": "plug-in, purified/bpda-eot",
    "artefacts": "E4/pca 100", "robust-base": "cifar10-at/0", "check": "cifar10-at/check/2/0",
    "certificates": "cifar10-standard + cifar10-vae/0", "encoder": "cifar10-vae/cifar10-unified",
    "graded": "salt and pepper 2 %", "mixed": "0",
}  # fmt: skip


@pytest.mark.parametrize("name", list(TINY))
def test_a_cell_of_each_experiment_runs(name: str) -> None:
    experiment = EXPERIMENTS[name]
    sizes = {size: 2 for size in experiment.sizes} | {"calibration": 200}
    cells = {str(cell.key): cell for cell in experiment.cells(experiment.form())}
    measured = experiment.measure(Workbench(sizes), cells[TINY[name]].key)
    assert measured["n"] == 2
    assert json.loads(json.dumps(measured, allow_nan=False)) == measured, "plain values only"
    assert all(type(key) is str for key in json.loads(json.dumps(measured)))


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_an_experiment_is_whole(name: str) -> None:
    experiment = EXPERIMENTS[name]
    assert experiment.name == name
    assert all(quick <= full for full, quick in experiment.sizes.values())
    assert experiment.why.endswith(".")
    assert experiment.differs.endswith(".")
    assert experiment.question.endswith("?")
    full, quick = ([str(cell.key) for cell in experiment.cells(experiment.form(form))] for form in (False, True))
    assert len(full) == len(set(full))
    assert bool(full) != bool(experiment.computed_from), "cells of its own, or those of others"
    assert set(experiment.computed_from) <= set(EXPERIMENTS)
    assert set(quick) <= set(full), "views walk over the keys of the full form"


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_an_empty_view_says_so(name: str) -> None:
    panels = EXPERIMENTS[name].view(Results())
    assert panels, "a view without results still shows something"
    assert all(panel.text() for panel in panels if isinstance(panel, Table))


def test_a_wrong_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"There is no experiment 'tabel2'. Did you mean table2"):
        find("tabel2")
