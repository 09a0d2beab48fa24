"""Results made by hand, and what tables and charts show of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from alu.paper import EXPERIMENTS
from alu.paper.store import Key, Measured, Results
from alu.paper.views import Panel, Table

GOOD, BAD, HALF = "1" * 100, "0" * 100, "1" * 40 + "0" * 60


def results(cells: Mapping[Any, Measured], quick: bool = False) -> Results:
    """Results that hold these cells."""
    files: dict[str, dict[str, Any]] = {}
    for key, measured in cells.items():
        files.setdefault(key.experiment, _file(quick))["cells"][str(key)] = {"found": measured, "commit": "abc"}
    return Results(files)


def _file(quick: bool) -> dict[str, Any]:
    return {"quick": quick, "sizes": {"n": 3}, "seed": 0, "cells": {}}


def emptied(found: Results, key: Key, why: str) -> Results:
    """The same with one cell that is empty for this reason."""
    found.experiments.setdefault(key.experiment, _file(False))["cells"][str(key)] = {"absent": why}
    return found


def answers(bare: str, purified: str, alu: str, everything: str = "", flagged: str = "") -> Measured:
    """A cell with the answers of every reading."""
    reading = {"alu": alu, "all flagged": everything or alu, "flagged": flagged or "0" * len(alu)}
    return {"n": len(bare), "bare": bare, "purified": purified, "input": reading, "reconstruction": reading}


def rows(panel: Panel) -> dict[str, list[str]]:
    """The rows of a table by their first cell."""
    assert isinstance(panel, Table)
    return {row[0]: list(row[1:]) for row in panel.rows}


def note(panel: Panel) -> str:
    """What stands below a table."""
    assert isinstance(panel, Table)
    return panel.note


def points(*panels: Panel) -> dict[str, str]:
    """The points of charts, as they can be read back from a page."""
    drawings = "".join(chart.drawing for panel in panels if not isinstance(panel, Table) for chart in panel)
    return dict(re.findall(r'data-key="([^"]*)"(?: data-x="[^"]*")? data-value="([^"]*)"', drawings))


def verdict(found: Results, claim: str) -> Any:
    """What became of the claim of this name."""
    for experiment in EXPERIMENTS.values():
        for one, decided in experiment.verdicts(found):
            if one.name == claim:
                return decided
    raise AssertionError(claim)
