"""Logit changes: cases add up, and the claims on which logit falls and which stay."""

from __future__ import annotations

from typing import Any

import pytest

from alu.paper.claims import FAILS, FEW, HOLDS
from alu.paper.logit_change import ATTACKS, ROBUST, STANDARD, Key, measure, others_stay, true_falls, view
from alu.paper.workbench import Workbench
from tests.paper.toys import results, rows, verdict


def test_cases_add_up() -> None:
    measured = measure(Workbench({"n": 12, "robust": 4}), Key(STANDARD, "pgd-20"))
    succeeded = measured["attacked"].count("1")
    assert len(measured["case"]) == len(measured["true falls most"]) == len(measured["true"]) == succeeded > 0
    for case, own, answered in zip(measured["case"], measured["true"], measured["answered"], strict=True):
        assert case == ("3" if own >= 0 else "1" if answered > 0 else "2")
    example = measured["example"]
    assert example["before"][example["true"]] == max(example["before"])
    table, (bars, *_) = view(results({Key(STANDARD, "pgd-20"): measured}))
    assert rows(table)["cifar10-standard/pgd-20"][0].endswith(f"n={succeeded}")
    assert example["classes"][example["true"]] in bars.drawing


def changed(classifier: str, falls: str, others: float) -> dict[Key, Any]:
    cell = {"true falls most": falls, "others, mean size": [others] * 4, "true": [-10.0] * 4}
    return {Key(classifier, attack): cell for attack in ATTACKS}


def test_claims_on_logits() -> None:
    assert true_falls(results(changed(STANDARD, "1" * 400, 1.0))).status == HOLDS
    assert true_falls(results(changed(STANDARD, "1" * 300 + "0" * 100, 1.0))).status == FAILS
    assert true_falls(results(changed(STANDARD, "1" * 95 + "0" * 5, 1.0))).status == FEW
    assert others_stay(results(changed(STANDARD, "1", 1.0))).status == HOLDS
    assert others_stay(results(changed(STANDARD, "1", 4.0))).status == FAILS


def test_what_holds_on_one_classifier_only_says_so() -> None:
    both = changed(STANDARD, "1" * 400, 1.0) | changed(ROBUST, "1" * 260 + "0" * 140, 4.0)
    for claim in (true_falls, others_stay):
        decided = claim(results(both))
        assert (decided.status, decided.limit) == (HOLDS, "On cifar10-standard only")
        assert any(line.startswith("cifar10-at, ") for line in decided.figures)


def test_a_wrong_cell_is_an_error_and_no_verdict() -> None:
    with pytest.raises(KeyError):
        verdict(results({Key(STANDARD, "pgd-20"): {"something": "else"}}), "other logits move little")
