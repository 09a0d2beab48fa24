"""Times are ratios within a repetition."""

from __future__ import annotations

from alu.paper import timing
from alu.paper.workbench import Workbench
from tests.paper.toys import results, rows


def test_a_pause_hits_one_ratio() -> None:
    each = {"bare": [1.0, 2.0, 1.0], "0": [3.0, 6.0, 3.0], "50": [30.0, 60.0, 33.0], "200": [60.0, 120.0, 600.0]}
    middle = {"bare": 1.0, "0": 3.0, "50": 33.0, "200": 120.0}
    measured = {"n": 10, "repeats": 3, "seconds": each, "median": middle}
    (table,) = timing.view(results({timing.Key(): measured}))
    assert rows(table)["N = 50"][:3] == ["3300.00", "30.0 [30.0, 31.5]", "10.0 [10.0, 10.5]"]
    assert rows(table)["N = 200"][2] == "20.0 [20.0, 110.0]"


def test_every_repetition_is_kept() -> None:
    measured = timing.measure(Workbench({"n": 2, "repeats": 2}), timing.Key())
    assert {name: len(each) for name, each in measured["seconds"].items()} == dict.fromkeys(
        ("bare", "0", "50", "200"), 2
    )
    assert measured["median"]["200"] > measured["median"]["bare"]
