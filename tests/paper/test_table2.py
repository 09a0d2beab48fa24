"""Table 2: protocols stay apart, unions count the table's own attacks, and the three claims."""

from __future__ import annotations

from typing import Any

from alu.paper import table2
from alu.paper.claims import FAILS, FEW, HOLDS, OBLIVIOUS, UNKNOWN
from alu.paper.store import ALU_READINGS, Adaptive, Column, Reading, Results
from alu.paper.table2 import Key, helps_robust, several_attacks, unified_better
from tests.paper.toys import BAD, GOOD, HALF, answers, emptied, note, points, results, rows, verdict

STANDARD, AT = "cifar10-standard", "cifar10-at"


def test_the_protocols_stay_apart() -> None:
    cells: dict[Key, Any] = {Key(STANDARD, column): answers("0000", "0011", "0111") for column in Column}
    cells[Key(STANDARD, Column.CLEAN)] = answers("1110", "1100", "1100")
    cells[Key(STANDARD, Adaptive(Reading.INPUT))] = {"adaptive": "1000"}
    untrained = "cifar10-at has not been trained yet."
    drawn, paper, standard = table2.view(emptied(results(cells), Key(AT, Column.CLEAN), untrained))
    assert points(drawn) == {
        "Standard: + ALU, PGD-20 on f(D(E)): the paper": "0.6452", "Standard: + ALU, PGD-20 on f(D(E))": "0.75",
        "Standard: without ALU, PGD-20 on f(D(E))": "0.0",
    }, "no union of one without that of the other"  # fmt: skip
    assert rows(paper)["Standard: the paper"] == ["paper 93.85", "paper 0", "–", "paper 0", "–"]
    assert rows(paper)["+ ALU, reconstruction: the paper"] == ["paper 79.34", "–", "paper 64.52", "–", "paper 72.03"]
    assert rows(paper)["+ ALU, input reading"][1].startswith("75.0 "), "right attacked, whatever was answered clean"
    assert rows(standard)["Adversarial training"] == [untrained]
    assert rows(paper)["Adversarial training: the paper"][:2] == ["paper 88.83", "paper 48.68"]
    assert rows(paper)["Adversarial training + ALU, reconstruction: the paper"][2] == "paper 96.87"
    assert rows(paper)["Adversarial training: here"] == [untrained]
    found = rows(standard)["+ ALU, input reading"]
    assert found[0].startswith("50.0 ")
    assert found[1].startswith("25.0 "), "right clean and attacked"
    assert found[-1].startswith("0.0 "), "the one that the suite left falls to the table's own attacks"
    assert "Budget" not in note(standard)


def test_a_union_is_shown_with_its_budget_and_what_it_lacks() -> None:
    cells: dict[Key, Any] = {Key(STANDARD, column): answers("0000", "0011", "0111") for column in Column}
    cells[Key(STANDARD, Adaptive(Reading.RECONSTRUCTION))] = {"adaptive": "0100", "budget": "standard"}
    cells[Key(STANDARD, Adaptive(Reading.BARE))] = {"adaptive": "0000"}
    cells[Key(STANDARD, Adaptive(Reading.INPUT))] = {"adaptive": "0100", "unmet": ["no attack without gradients"]}
    drawn, _, standard = table2.view(results(cells))
    assert {"Standard: + ALU, every attack", "Standard: without ALU, every attack"} <= set(points(drawn))
    assert note(standard).endswith("Budget standard: Standard.")
    assert rows(standard)["+ ALU, input reading"][-1] == "25.0 [4.6, 69.9] n=4 INCOMPLETE (no attack without gradients)"


def cells_of(name: str, alu: str, bare: str, union: str, bare_union: str = BAD) -> dict[Key, Any]:
    """A row of one classifier, the same in both readings and under every attack."""
    both = {reading: {"alu": alu} for reading in ALU_READINGS}
    cells: dict[Key, Any] = {Key(name, column): {"bare": bare, **both} for column in Column}
    cells |= {Key(name, Adaptive(reading)): {"adaptive": union} for reading in ALU_READINGS}
    return {**cells, Key(name, Adaptive(Reading.BARE)): {"adaptive": bare_union}}


def test_a_union_counts_the_tables_own_attacks_too() -> None:
    found = results(cells_of(STANDARD, HALF, BAD, GOOD))
    assert table2.standing(found, STANDARD, Reading.INPUT) == HALF
    assert table2.standing(found, STANDARD, Reading.BARE) == BAD


def test_one_purifier_against_several_attacks() -> None:
    for alu, union, status in (
        (GOOD, BAD, OBLIVIOUS), (GOOD, HALF, OBLIVIOUS), (GOOD, GOOD, HOLDS), (HALF, HALF, FAILS),
    ):  # fmt: skip
        assert several_attacks(results(cells_of(STANDARD, alu, BAD, union))).status == status


def test_help_for_robust_classifiers_is_ten_points_on_each_of_them() -> None:
    little, some = "1" * 43 + "0" * 57, "1" * 52 + "0" * 48
    for alu, union, status in (
        (HALF, BAD, FAILS), (little, BAD, FAILS), (some, BAD, FEW), (GOOD, BAD, OBLIVIOUS), (GOOD, GOOD, HOLDS),
    ):  # fmt: skip
        assert helps_robust(results(cells_of(AT, alu, HALF, union, HALF))).status == status
    helped, not_helped = cells_of(AT, GOOD, HALF, GOOD, HALF), cells_of("cifar10-mart", HALF, HALF, BAD, HALF)
    decided = helps_robust(results(helped | not_helped))
    assert decided.status == FAILS, "one that is not helped is one too many"
    assert any(line.startswith("cifar10-mart, PGD-20 on f: bare 40.0") for line in decided.figures)
    alone = results(cells_of("cifar10-mart", GOOD, HALF, GOOD, HALF))
    assert verdict(alone, "ALU helps adversarially trained classifiers too").status == UNKNOWN


def two(unified: dict[Key, Any], plug_in: dict[Key, Any]) -> Any:
    return unified_better(results(unified | plug_in))


def test_unified_beside_plug_in() -> None:
    name, plain = "cifar10-unified", cells_of(STANDARD, HALF, BAD, BAD)
    assert two(cells_of(name, GOOD, BAD, BAD), plain).status == OBLIVIOUS
    assert two(cells_of(name, GOOD, BAD, HALF), plain).status == HOLDS
    assert two(cells_of(name, HALF, BAD, BAD), cells_of(STANDARD, GOOD, BAD, BAD)).status == FAILS
    assert two(cells_of(name, HALF, BAD, BAD), plain).status == FEW
    nothing = two(cells_of(name, BAD, BAD, BAD), cells_of(STANDARD, BAD, BAD, BAD))
    assert nothing.status == FAILS, "if neither keeps any image, there is no lead"
    split = cells_of(name, GOOD, BAD, BAD)
    for column in Column:
        split[Key(name, column)]["reconstruction"] = {"alu": BAD}
    decided = two(split, plain)
    assert (decided.status, decided.limit) == (OBLIVIOUS, "In the input reading only")


def test_a_row_that_lacks_an_attack_of_the_table_is_not_every_attack() -> None:
    cells = cells_of(AT, GOOD, HALF, GOOD, HALF)
    assert table2.unfinished(results(cells), AT, Reading.INPUT) == ""
    del cells[Key(AT, Column.AUTOATTACK_ON_VAE)]
    found = results(cells)
    assert table2.unfinished(found, AT, Reading.INPUT) == " INCOMPLETE (autoattack on f(D(E)) not run)"
    assert table2.unfinished(found, AT, Reading.BARE) == "", "which has nothing to be attacked through"
    assert helps_robust(found).status == FEW


def test_a_union_that_lacks_an_attack_proves_nothing() -> None:
    both = cells_of("cifar10-unified", GOOD, BAD, HALF) | cells_of(STANDARD, HALF, BAD, BAD)
    for claim, cells in (
        (several_attacks, cells_of(STANDARD, GOOD, BAD, GOOD)),
        (helps_robust, cells_of(AT, GOOD, HALF, GOOD, HALF)),
        (unified_better, both),
    ):
        assert claim(results(cells)).status == HOLDS
        for key in cells:
            if isinstance(key.column, Adaptive):
                cells[key]["unmet"] = ["no attack without gradients"]
        decided = claim(results(cells))
        assert decided.status == FEW
        assert decided.rule.endswith("INCOMPLETE (no attack without gradients)")


def test_nothing_measured_says_so() -> None:
    (only,) = table2.view(Results())
    assert rows(only) == {"": ["not measured yet"]}
