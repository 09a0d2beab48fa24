"""Attacks that hold the true logit up: what they ask is counted, and they are compared with PGD that stops too."""

from __future__ import annotations

from alu.paper.claims import FAILS, FEW, HOLDS
from alu.paper.pattern_cost import PATTERN, STANDARD, STOPPED, Key, measure, pattern_weak, view
from alu.paper.workbench import Workbench
from tests.paper.toys import BAD, GOOD, HALF, results, rows


def test_what_attacks_ask_is_counted() -> None:
    pgd = measure(Workbench({"n": 5, "steps": 3}), Key(STANDARD, "pgd"))
    asked = pgd["right clean"].count("1")
    assert 0 < asked <= 5
    assert pgd["backwards"] == asked * 3, "only images that are right clean are attacked"
    assert pgd["forwards"] >= asked * 3
    assert len(pgd["fooled"]) == 5
    (table,) = view(results({Key(STANDARD, "pgd"): pgd}))
    assert rows(table)["cifar10-standard/pgd"][-1] == "3.0"


def test_pattern_gives_case_three_in_most_of_its_successes() -> None:
    measured = measure(Workbench({"n": 20, "steps": 20}), Key(STANDARD, PATTERN))
    assert measured["fooled"].count("1") >= 12
    assert measured["case 3"].count("1") >= measured["fooled"].count("1") / 2


def test_weak_and_slow() -> None:
    pgd = {"right clean": GOOD, "fooled": GOOD, "case 3": BAD, "backwards": 100, "forwards": 100, "seconds": 1.0}
    some, most = "1" * 90 + "0" * 10, "0" * 10 + "1" * 90
    for fooled, third, cost, status in (
        (some, GOOD, 300, FAILS), (GOOD, HALF, 300, HOLDS), (GOOD, HALF, 150, FAILS), (most, some, 300, FEW),
    ):  # fmt: skip
        held = {**pgd, "case 3": third, "backwards": cost}
        found = results({Key(STANDARD, STOPPED): {**pgd, "fooled": fooled}, Key(STANDARD, PATTERN): held})
        decided = pattern_weak(found)
        assert decided.status == status
        assert f"{cost / 100:.1f} times the gradients" in decided.figures[0]
