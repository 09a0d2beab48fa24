"""Table 3: methods on the same images, what is not built is named, and whether unified ALU is ahead."""

from __future__ import annotations

import re
from typing import Any

import pytest

from alu.paper import table2, table3
from alu.paper.claims import FAILS, FEW, HOLDS, OBLIVIOUS
from alu.paper.store import Column, MissingCellError
from alu.paper.table3 import ADAPTIVE, OTHERS, OURS, Images, Key, outperforms
from alu.paper.workbench import Workbench
from tests.paper.toys import BAD, GOOD, HALF, answers, emptied, note, points, results, rows

HEDGE = "Hedge Defense"


def test_the_rows_that_exist_and_those_that_do_not() -> None:
    cells: dict[Any, Any] = {Key(HEDGE, images): answers("1", "1", "0") for images in (Images.CLEAN, Images.PGD_ON_F)}
    cells[Key(HEDGE, Images.PGD_THROUGH)] = answers("1", "0", "0")
    cells[Key(HEDGE, ADAPTIVE)] = {"adaptive": "1"}
    cells[table2.Key("cifar100-unified", Column.CLEAN)] = answers("1", "1", "10")
    found = emptied(results(cells), Key("AWP", Images.CLEAN), "cifar10-awp has not been trained yet.")
    drawn, paper, strict, others, elsewhere = table3.view(found)
    assert points(drawn) == {
        f"{HEDGE}: PGD-20: the paper": repr(71.43 / 100), f"{HEDGE}: PGD-20": "0.0", f"{HEDGE}: every attack": "0.0",
    }  # fmt: skip
    assert rows(strict)[HEDGE][-1].startswith("0.0 "), "the table's own attacks count with the suite's"
    assert rows(strict)[HEDGE][1].startswith("100.0 ")
    assert "average of ten draws" not in note(strict)
    assert rows(elsewhere)["ADP (Yoon 2021): the paper"] == ["paper 77.83", "paper 43.21", *["–"] * 4]
    assert rows(elsewhere)["Unified ALU: here"][0].startswith("50.0 ")
    assert rows(paper)[f"{HEDGE}: here"][0].startswith("100.0 "), "its answer is the purified one"
    assert rows(paper)[f"{HEDGE}: the paper"] == ["paper 90.63", "paper 71.43", "–", "paper 72.66", "–"]
    assert rows(paper)["AWP: here"] == ["cifar10-awp has not been trained yet."]
    assert rows(others)["ADP (Yoon 2021)"][:2] == ["paper 93.09", "paper 85.45"]


def test_a_random_method_is_shown_over_its_draws_too() -> None:
    draws = {"clean": [1.0, 0.9, 0.0, 0.5], "adaptive": [0.5, 0.0, 0.0, 0.5]}
    union = {"adaptive": "1000", "right draws": draws}
    strict = table3.view(results({Key(HEDGE, ADAPTIVE): union}))[2]
    assert re.search(r"Hedge Defense, average .*: 60\.0 \[.*n=4 right clean, and at most 25\.0 \[", note(strict))


def status(own: str, left: str, theirs: str, missing: str = "") -> str:
    cells: dict[Any, Any] = {}
    for row in (*OURS.values(), *OTHERS):
        easy, union = (own, left) if row in OURS.values() else (HALF, theirs)
        cells[Key(row, Images.PGD_ON_F)] = answers(easy, easy, easy)
        if row != missing:
            cells[Key(row, ADAPTIVE)] = {"adaptive": union}
    return outperforms(results(cells)).status


def test_other_methods_are_compared_on_the_same_images() -> None:
    assert status(GOOD, BAD, BAD) == OBLIVIOUS
    assert status(GOOD, GOOD, BAD) == HOLDS
    assert status(GOOD, BAD, HALF) == OBLIVIOUS
    assert status(GOOD, "1" * 43 + "0" * 57, HALF) == FEW, "a lead of three may be chance"
    assert status(HALF, BAD, HALF) == FEW
    assert status(BAD, BAD, HALF) == FAILS
    assert status(GOOD, BAD, HALF, missing="AWP") == OBLIVIOUS, "the others settle it"
    assert status(GOOD, GOOD, BAD, missing="AWP") == FEW, "one comparison is open"
    with pytest.raises(MissingCellError):
        status(GOOD, GOOD, BAD, missing="Unified ALU")


@pytest.mark.parametrize("row", ["Anti-Adversary", "Adversarial training alone", "Blur + ALU"])
def test_attacks_through_the_purifier_run_on_every_kind_of_it(row: str) -> None:
    bench = Workbench({"n": 2, "hard": 2, "adaptive": 2, "calibration": 200, "robust": 1})
    on_f, through = (table3.measure(bench, Key(row, images)) for images in (Images.PGD_ON_F, Images.PGD_THROUGH))
    assert on_f["n"] == through["n"] == 2
    if row == "Adversarial training alone":
        assert on_f == through, "through nothing is on f"
