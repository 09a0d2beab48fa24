"""rebreak: gains over a method's own base, here and in the literature, from the cells of tables 2 and 3."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from alu.paper import EXPERIMENTS, rebreak, store, table2, table3
from alu.paper.rebreak import lost, published
from alu.paper.running import reproduce
from alu.paper.store import Adaptive, Reading
from alu.paper.table3 import ADAPTIVE, Images, Key
from tests.paper.toys import BAD, GOOD, HALF, emptied, results, rows

SOAP, ADP, HEDGE = "SOAP (Shi 2021)", "ADP (Yoon 2021)", "Hedge Defense"
BARE = table2.Key("cifar10-standard", Adaptive(Reading.BARE))


def method(row: str, claimed: str, left: str, bare: str = BAD) -> dict[Any, Any]:
    """A method whose answer under the attack it claims to withstand, and under all, is given."""
    under = Images(store.PUBLISHED["claims of others"][row]["under"])
    return {Key(row, under): {"bare": bare, "purified": claimed}, Key(row, ADAPTIVE): {"adaptive": left}}


def seen(cells: dict[Any, Any], row: str) -> list[str]:
    (table,) = rebreak.view(results(cells))
    return rows(table)[row]


def test_a_gain_that_is_gone_is_as_damning_as_it_gets() -> None:
    row = seen({**method(ADP, GOOD, BAD), BARE: {"adaptive": BAD}}, ADP)
    assert row[0] == "cifar10-standard"
    assert row[1].startswith("0.0 ")
    assert row[2] == "+85.5 points"
    assert row[3].startswith("+100.0 ")
    assert row[4] == "+33.7 points"
    assert row[5].startswith("+0.0 ")
    assert row[6:] == ["100 %", "61 %", "yes"]


def test_a_gain_of_which_more_is_left_than_elsewhere_is_not() -> None:
    row = seen({**method(SOAP, GOOD, HALF), Key(table3.SOAP_BASE, ADAPTIVE): {"adaptive": BAD}}, SOAP)
    assert row[0] == "cifar10-soap"
    assert row[6:] == ["60 %", "93 %", "no"]
    row = seen({**method(ADP, GOOD, HALF), BARE: {"adaptive": BAD}}, ADP)
    assert row[6:] == ["60 %", "61 %", "no"]


def test_what_is_left_is_compared_with_the_base_under_the_same_attacks() -> None:
    base = Key("Adversarial training alone", ADAPTIVE)
    row = seen({**method("Anti-Adversary", GOOD, HALF, bare=HALF), base: {"adaptive": HALF}}, "Anti-Adversary")
    assert row[1].startswith("40.0 ")
    assert row[3].startswith("+60.0 ")
    assert row[5].startswith("+0.0 ")
    assert row[6:] == ["100 %", "100 %", "yes"]


def test_where_nothing_is_gained_nothing_can_be_lost() -> None:
    row = seen({**method(ADP, BAD, BAD), BARE: {"adaptive": BAD}}, ADP)
    assert row[6:] == ["–", "61 %", "no gain here to begin with"]


def test_what_was_not_measured_is_not_guessed() -> None:
    assert seen({}, ADP) == ["not measured yet"]
    (table,) = rebreak.view(emptied(results({}), Key(SOAP, Images.CLEAN), "cifar10-soap has not been trained yet."))
    assert rows(table)[SOAP] == ["cifar10-soap has not been trained yet."]
    cells = method(ADP, GOOD, BAD)
    assert seen(cells, ADP)[5:] == ["–", "–", "61 %", "–"], "without its base there is no gain"
    base = Key("Adversarial training alone", ADAPTIVE)
    hedge = seen({**method(HEDGE, GOOD, HALF, bare=HALF), base: {"adaptive": HALF}}, HEDGE)
    assert (hedge[2], hedge[7], hedge[8]) == ("–", "–", "yes"), "the base of its claim is not published"


def test_shares_of_gains() -> None:
    assert published({"claimed": [79.2, 66.6]}, "claimed") == pytest.approx(12.6)
    assert published({"claimed": [72.7, None]}, "claimed") is None
    assert lost(50.0, 10.0) == pytest.approx(0.8)
    assert lost(0.0, 10.0) is None
    assert lost(50.0, None) is None


def test_it_measures_nothing_and_is_shown_all_the_same(tmp_path: Path) -> None:
    table = reproduce("rebreak", out=tmp_path)
    assert EXPERIMENTS["rebreak"].cells({}) == []
    assert [row[0] for row in table.rows] == list(store.PUBLISHED["claims of others"])
    assert store.read(tmp_path / "rebreak.json")["cells"] == {}
    assert "broken again" in str(table)
