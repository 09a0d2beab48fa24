"""mixed: only what stands is attacked further, parts are joined, and the bars are read from paired differences."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from alu.paper.mixed import Key, joined, measure, view
from alu.paper.store import Results
from alu.paper.views import Table
from alu.paper.workbench import Workbench

SIZES = {"n": 20, "part": 10, "steps": 2, "targets": 1, "queries": 5}


def test_a_part_holds_every_attack_on_both() -> None:
    found = measure(Workbench(SIZES), Key(1))
    usual = ["margin PGD", "APGD", "targeted APGD", "FAB", "Square"]
    parts = ["flatten", "unsharpened", "plain", "robust part", "standard part"]
    assert list(found["mixed"]["after"]) == [*parts, *usual]
    assert list(found["robust"]["after"]) == usual
    for system in ("mixed", "robust"):
        rows = [found[system]["clean"], *found[system]["after"].values()]
        assert all(len(row) == 10 for row in rows)
        for before, after in pairwise(rows):
            assert all(one >= two for one, two in zip(before, after, strict=True))
    assert found["mixed"]["after"]["flatten"] != found["mixed"]["clean"], "nothing was attacked"


def results(clean: int, stands: int, *parts: int) -> Results:
    """A base at 6 clean and 4 attacked of 10, and a mixture that has this many."""

    def row(count: int) -> str:
        return "1" * count + "0" * (10 - count)

    cell: dict[str, Any] = {
        "n": 10, "mixed": {"clean": row(clean), "after": {"flatten": row(clean - 1), "Square": row(stands)}},
        "robust": {"clean": row(6), "after": {"Square": row(4)}},
    }  # fmt: skip
    cells = {str(Key(part)): {"found": cell} for part in parts}
    return Results({"mixed": {"sizes": SIZES, "cells": cells}})


@pytest.mark.parametrize(("clean", "stands", "verdict"), [(8, 4, "passes"), (8, 3, "does not"), (6, 4, "does not")])
def test_the_bars(clean: int, stands: int, verdict: str) -> None:
    table = view(results(clean, stands, 0, 1))[0]
    assert isinstance(table, Table)
    assert f"The mixture {verdict}" in table.note
    assert table.rows[1][1].startswith(f"{10 * clean}.0 [")
    assert table.rows[2][2].startswith(f"{10 * (stands - 4):+.1f} [")


def test_no_part_may_be_missing() -> None:
    assert joined(results(8, 4, 0)) == {}
    assert len(joined(results(8, 4, 0, 1))["mixed"]["Square"]) == 20
    assert len(view(results(8, 4, 0))) == 1
