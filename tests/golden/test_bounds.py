"""Bounds that committed results must keep: attacks alone and together where they should win, and what they cost."""

from __future__ import annotations

from typing import Any

import pytest

from alu.storage import read_json
from tests.conftest import ROOT

CELLS: dict[str, dict[str, Any]] = read_json(ROOT / "results" / "each-attack.json")["cells"]
TABLE2: dict[str, dict[str, Any]] = read_json(ROOT / "results" / "table2.json")["cells"]
TOGETHER: dict[str, dict[str, Any]] = read_json(ROOT / "results" / "whole-suite.json")["cells"]


def cell(reading: str, attack: str, purifier: str = "cifar10-vae") -> dict[str, Any]:
    found: dict[str, Any] = CELLS[f"{purifier}, {reading}/{attack}"]["found"]
    assert found["n"] >= 100
    return found


def resisted(found: dict[str, Any]) -> int:
    """Right or rejected, of a hundred."""
    outcome: str = found["outcome"]
    return outcome.count("1") + outcome.count("2")


@pytest.mark.parametrize(("attack", "most"), [("Stealth", 15), ("Soft", 10)])
def test_hiding_beats_abstention(attack: str, most: int) -> None:
    assert resisted(cell("abstain", attack)) <= most


@pytest.mark.parametrize("attack", ["Match", "Trajectory"])
def test_who_looks_at_both_answers_beats_the_surrogate(attack: str) -> None:
    assert resisted(cell("reconstruction", attack)) < resisted(cell("reconstruction", "surrogate PGD-20"))


@pytest.mark.parametrize("reading", ["input", "reconstruction"])
def test_the_rare_case_is_most_of_what_pattern_finds(reading: str) -> None:
    found = cell(reading, "Pattern")
    won = [place for place, outcome in enumerate(found["outcome"]) if outcome == "0"]
    assert len(won) >= 50
    assert sum(found["case 3"][place] == "1" for place in won) >= 0.5 * len(won)


@pytest.mark.parametrize("attack", ["Decoy", "Boost"])
def test_who_knows_the_rule_turns_it_round(attack: str) -> None:
    assert cell("input", attack)["outcome"].count("1") <= 3


def together(purifier: str, reading: str, attack: str, most: int = 200) -> str:
    """Outcomes of whole-suite: 1 is right."""
    found: dict[str, Any] = TOGETHER[f"{purifier}, {reading}/{attack}"]["found"]
    outcome: str = found["adaptive"] if attack in ("standard", "quick") else found["outcome"]
    assert found["n"] == len(outcome) == most
    return outcome


def right(outcome: str) -> float:
    """In percent."""
    return 100 * outcome.count("1") / len(outcome)


PURIFIERS = pytest.mark.parametrize("purifier", ["cifar10-vae", "cifar10-pca"])


@PURIFIERS
def test_two_hundred_images_and_an_attacker_who_knows_nothing_or_the_rule(purifier: str) -> None:
    assert right(together(purifier, "input", "pgd-20 on f")) >= 85
    for attack in ("Decoy", "Boost"):
        assert right(together(purifier, "input", attack)) <= 3


@pytest.mark.parametrize(
    ("purifier", "reading", "most"),
    [
        ("cifar10-vae", "input", 2), ("cifar10-vae", "purified", 2), ("cifar10-vae", "reconstruction", 5),
        ("cifar10-pca", "input", 2), ("cifar10-pca", "purified", 2),
    ],
)  # fmt: skip
def test_the_whole_suite_leaves_next_to_nothing(purifier: str, reading: str, most: int) -> None:
    standard = right(together(purifier, reading, "standard"))
    assert standard <= most
    assert abs(right(together(purifier, reading, "quick", 60)) - standard) <= 5


def test_the_suite_is_as_strong_as_autoattack_on_a_robust_classifier() -> None:
    union, autoattack = (TABLE2[f"cifar10-at/{cell}"]["found"] for cell in ("adaptive, bare", "autoattack on f"))
    assert union["n"] == autoattack["n"] == 100
    assert right(union["adaptive"]) <= right(autoattack["bare"]) + 1


def test_our_search_costs_little_more_than_its_passes() -> None:
    found = read_json(ROOT / "bench" / "results" / "attacks.json")
    assert found["images"] == 500
    assert found["alu_to_passes"] <= 1.05
    assert found["alu_to_foolbox"] <= 1.0


def test_refusing_costs_no_more_than_it_may() -> None:
    found = read_json(ROOT / "bench" / "results" / "refusal.json")
    assert found["check"]["answered"]["ratio_to_forward"] <= 35
    assert found["check"]["refused"]["share_within_bar_by_passes"] > 0.5, "most cost at most 8 bare forwards"
    assert found["certificate"]["share_settled_with_500"] >= 0.5
