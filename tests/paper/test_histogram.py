"""The score: thresholds by hand, what is flagged, and the three claims on it."""

from __future__ import annotations

from typing import Any

import pytest

from alu.paper import adaptive, histogram
from alu.paper.claims import FAILS, FEW, HOLDS, OBLIVIOUS
from alu.paper.histogram import HELD_OUT, TRAIN, Key, overlap, separable, survives_autoattack
from alu.paper.store import Column, Reading, Results
from tests.paper.toys import results, rows, verdict

LOW, HIGH = [1.0] * 400, [9.0] * 400
SOME = [*LOW[:352], *HIGH[:48]]


def both(values: list[float]) -> dict[str, Any]:
    return {"input": values, "reconstruction": values}


def scores(test: list[float], on_f: list[float], through: list[float], hard: list[float]) -> dict[Any, Any]:
    # Both thresholds are 5: the scores of training and held-out images are 0 but for a few fives at the end.
    clean = both([0.0] * 970 + [5.0] * 30)
    return {
        Key(TRAIN): clean, Key(HELD_OUT): clean, Key(Column.CLEAN): both(test), Key(Column.PGD_ON_F): both(on_f),
        Key(Column.PGD_ON_VAE): both(through), Key(Column.AUTOATTACK_ON_F): both(hard),
        Key(Column.AUTOATTACK_ON_VAE): both(hard),
        adaptive.Key("cifar10-vae", Reading.ABSTAIN, "Stealth"): {"outcome": "0" * 100},
    }  # fmt: skip


def test_thresholds_by_hand() -> None:
    cells = {Key(TRAIN): both([float(value) for value in range(201)]),
             Key(HELD_OUT): both([float(value) for value in range(399)])}  # fmt: skip
    found = results(cells)
    assert histogram.paper_threshold(found, Reading.INPUT) == pytest.approx(199.0), "the 99.5 % quantile of 0..200"
    # 399 images at 0.5 %: p = (1 + those at least as high) / 400 allows one as high: the second highest is not flagged.
    assert histogram.held_out_threshold(found, Reading.INPUT) == 397.0


def test_the_table_counts_what_lies_above_each_threshold() -> None:
    *charts, table = histogram.view(results(scores(LOW, SOME, HIGH, HIGH)))
    assert len(charts) == 2
    assert rows(table)["PGD-20 on f, input"] == ["12.0 [9.2, 15.6] n=400"] * 2
    assert rows(table)["test images, reconstruction"] == ["0.0 [0.0, 1.0] n=400"] * 2


@pytest.mark.parametrize(
    ("claim", "cells", "status"),
    [
        (overlap, scores(LOW, HIGH, HIGH, HIGH), HOLDS),
        (overlap, scores(SOME, HIGH, HIGH, HIGH), FAILS),
        (overlap, scores([*LOW[:394], *HIGH[:6]], HIGH, HIGH, HIGH), FEW),
        (separable, scores(LOW, HIGH, HIGH, HIGH), HOLDS),
        (separable, scores(LOW, HIGH, LOW, HIGH), OBLIVIOUS),
        (separable, scores(LOW, LOW, LOW, HIGH), FAILS),
        (survives_autoattack, scores(LOW, HIGH, HIGH, LOW), FAILS),
        (survives_autoattack, scores(LOW, HIGH, HIGH, HIGH), OBLIVIOUS),
    ],
)
def test_claims_on_the_score(claim: Any, cells: dict[Any, Any], status: str) -> None:
    assert claim(results(cells)).status == status


def test_what_holds_in_one_reading_only_says_so() -> None:
    cells = scores(LOW, HIGH, HIGH, HIGH)
    for column in (Column.PGD_ON_F, Column.AUTOATTACK_ON_F):
        cells[Key(column)] = {"input": HIGH, "reconstruction": LOW}
    for claim, status in ((separable, HOLDS), (survives_autoattack, OBLIVIOUS)):
        decided = claim(results(cells))
        assert (decided.status, decided.limit) == (status, "In the input reading only")


def test_a_quick_result_that_is_only_looked_at_is_no_conclusion_either() -> None:
    found: Results = results(scores(LOW, HIGH, HIGH, HIGH))
    found.experiments["each-attack"]["quick"] = True
    assert verdict(found, "detection survives AutoAttack").status == FEW
    assert verdict(found, "clean and attacked scores are separable").status == HOLDS
