"""BPDA: both protocols, unions that count the experiment's own attacks, and whether asymmetry stops it."""

from __future__ import annotations

from typing import Any

import pytest

from alu.paper import bpda
from alu.paper.bpda import ADAPTIVE, BPDA, CLEAN, COLUMNS, SURROGATE, Key, asymmetry
from alu.paper.claims import FAILS, FEW, HOLDS
from alu.paper.store import Reading
from tests.paper.toys import BAD, GOOD, emptied, results, rows

INPUT, RECONSTRUCTION = Reading.INPUT, Reading.RECONSTRUCTION


def outcomes(system: str, reading: Reading, *digits: str) -> dict[Key, Any]:
    return {Key(system, reading, column): {"outcome": each} for column, each in zip(COLUMNS, digits, strict=True)}


def test_everything_together_counts_the_experiment_s_own_attacks() -> None:
    cells = outcomes("plug-in", INPUT, "1110", "1101", "1011")
    cells[Key("plug-in", INPUT, ADAPTIVE)] = {"adaptive": "111"}
    found = emptied(results(cells), Key("asymmetric", RECONSTRUCTION, CLEAN), "nobody trained it.")
    assert bpda.standing(found, "plug-in", INPUT) == "100"
    paper, strict = bpda.view(found)
    assert rows(paper)["plug-in, input"][1].startswith("75.0 ")
    assert [cell[:5] for cell in rows(strict)["plug-in, input"]] == ["75.0 ", "50.0 ", "50.0 ", "33.3 "]
    assert rows(paper)["asymmetric, reconstruction"] == ["nobody trained it."]


@pytest.mark.parametrize(
    ("unified", "broken", "surrogate", "status", "why"),
    [
        (BAD, GOOD, GOOD, HOLDS, ""),
        (BAD, BAD, BAD, FAILS, ""),
        (BAD, GOOD, BAD, FAILS, "The gradient through encoder and decoder finds what BPDA-EOT does not"),
        (GOOD, GOOD, GOOD, FAILS, "does not break the symmetric system either"),
        (BAD, "10" * 50, GOOD, FEW, ""),
    ],
)
def test_asymmetry(unified: str, broken: str, surrogate: str, status: str, why: str) -> None:
    cells = outcomes("unified", RECONSTRUCTION, GOOD, unified, BAD)
    cells |= outcomes("asymmetric", RECONSTRUCTION, GOOD, broken, surrogate)
    cells[Key("asymmetric", RECONSTRUCTION, ADAPTIVE)] = {"adaptive": GOOD}
    decided = asymmetry(results(cells))
    assert decided.status == status
    assert why in decided.figures[-1]
    cells[Key("asymmetric", RECONSTRUCTION, ADAPTIVE)] = {"adaptive": GOOD, "unmet": ["one more"]}
    decided = asymmetry(results(cells))
    assert decided.status == (FEW if status is HOLDS else status)
    assert decided.rule.endswith("INCOMPLETE (one more)")


def test_columns_are_attacks() -> None:
    assert list(COLUMNS) == [CLEAN, BPDA, SURROGATE]
