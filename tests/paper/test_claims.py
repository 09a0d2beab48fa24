"""Verdicts: bounds and comparisons have three answers, the best case is named, a quick result is no conclusion."""

from __future__ import annotations

import pytest

from alu.paper import claims, verdicts
from alu.paper.claims import FAILS, FEW, HOLDS, OBLIVIOUS, UNKNOWN, Claim, Verdict
from alu.paper.store import Column, MissingCellError, Reading, Results
from alu.paper.table2 import Key
from alu.stats import Share
from tests.conftest import ROOT
from tests.paper.toys import results

CELL = Key("cifar10-at", Column.CLEAN)


def test_bounds_and_comparisons_have_three_answers() -> None:
    assert [claims.at_least(Share(count, 100), 0.9) for count in (100, 99, 90, 70)] == [True, True, None, False]
    assert [claims.at_most(Share(count, 100), 0.1) for count in (0, 1, 10, 30)] == [True, True, None, False]
    assert claims.at_most(Share(0, 5), 0.02) is None, "none of five is not yet at most 2 %"
    assert claims.at_least(Share(5, 5), 0.98) is None
    assert claims.better("1" * 20, "0" * 20) is True
    assert claims.better("0" * 20, "1" * 20) is False
    assert claims.better("1" * 20, "1" * 19 + "0") is None
    assert claims.compared("0" * 20, "1" * 20) == "worse"
    assert claims.ahead("0" * 20, "0" * 20) is False, "if neither keeps any image, there is no lead"
    assert claims.ahead("1" * 20, "0" * 20) is True


def test_a_gain_is_on_the_images_that_both_have() -> None:
    assert claims.gain("1111", "0011").value == 0.5
    assert (claims.gain("11", "0011").value, claims.gain("11", "0011").n) == (1.0, 2)


def test_all_findings_must_be_true() -> None:
    assert claims.every([True, True]) is HOLDS
    assert claims.every([True, None]) is FEW
    assert claims.every([None, False]) is FAILS
    assert claims.by_attacker([False], [True]) is OBLIVIOUS
    assert claims.by_attacker([True], [True]) is HOLDS
    assert claims.by_attacker([True], [False]) is FAILS
    assert claims.by_attacker([False], [None]) is FEW


def test_the_best_case_is_named_where_the_other_differs() -> None:
    both = {Reading.INPUT: FAILS, Reading.RECONSTRUCTION: OBLIVIOUS}
    assert claims.best_case(both, ["a"], "b.") == Verdict(OBLIVIOUS, ["a"], "b.", "In the reconstruction reading only")
    assert claims.best_case(dict.fromkeys(both, FEW), [], "").limit == ""
    assert claims.best_case({"one": HOLDS, "two": FEW}, [], "") == Verdict(HOLDS, [], "", "On one only")


def test_a_union_from_which_an_attack_is_missing_proves_nothing() -> None:
    held, failed = Verdict(HOLDS, [], "To hold: x."), Verdict(FAILS, [], "To hold: x.")
    assert held.unless_incomplete(["", " INCOMPLETE (y)", " INCOMPLETE (z)"]).status is FEW
    assert held.unless_incomplete(["", " INCOMPLETE (y)"]).rule == "To hold: x. INCOMPLETE (y)"
    assert held.unless_incomplete(["", ""]) == held
    assert failed.unless_incomplete([" INCOMPLETE (y)"]).status is FAILS


def decide(results: Results) -> Verdict:
    results.need(CELL)
    return Verdict(HOLDS, ["a figure"], "To hold: one cell.", "On one only")


CLAIM = Claim("a claim", "It says so.", decide)


def test_a_quick_result_is_no_conclusion() -> None:
    decided = CLAIM.verdict(results({CELL: {}}, quick=True), "threats")
    assert decided.status is FEW
    assert decided.lines == ["On one only", "Quick form only, with too few images; it says: holds", "a figure"]
    assert decided.experiments == ("threats", "table2"), "its own, then those that were looked at"
    assert CLAIM.verdict(results({CELL: {}}), "table2").status is HOLDS


def test_what_was_not_measured_is_not_decided() -> None:
    decided = CLAIM.verdict(Results(), "table2")
    assert (decided.status, decided.rule) == (UNKNOWN, "")
    assert decided.lines == ["Not measured: table2, cifar10-at/clean"]
    assert {verdict.status for _, verdict in verdicts(Results())} == {UNKNOWN}


def test_a_mistake_in_a_claim_is_not_taken_for_a_missing_cell() -> None:
    broken = Claim("a claim", "It says so.", lambda results: Verdict(results.need(CELL)["nothing"], []))
    with pytest.raises(KeyError):
        broken.verdict(results({CELL: {}}), "table2")
    with pytest.raises(MissingCellError):
        decide(Results())


def test_every_claim_states_its_rule_and_its_figures() -> None:
    for claim, verdict in verdicts(Results.open(ROOT / "results")):
        assert verdict.status is UNKNOWN or verdict.rule.startswith("To hold"), claim.name
        assert verdict.figures
        assert all(line.strip(" .;") == line for line in verdict.lines), claim.name
