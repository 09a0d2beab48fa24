"""A result as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from alu.evaluation import metrics
from alu.evaluation.text import headline
from alu.report import write
from tests.unit import results
from tests.unit.pages import read as read_page


def test_the_first_line_says_what_was_judged_and_what_is_missing() -> None:
    result = results.result(20)
    judged = "VAE + ALU on cifar10/test, Linf eps 8/255, suite adaptive, budget quick"
    assert headline(result) == judged
    result.unmet, result.shard = ["no attack without gradients"], [1, 3]
    assert headline(result) == f"INCOMPLETE (no attack without gradients): SHARD 2 OF 3: {judged}"
    lines = str(result).splitlines()
    assert lines[0].startswith("INCOMPLETE, SHARD 2 OF 3: Against an attacker who knows it, this defence ")
    assert lines[:4] == f"INCOMPLETE, SHARD 2 OF 3: {result.verdict}".splitlines()
    assert lines[4] == headline(result)
    model = results.plain(20)
    model.unmet = ["no attack without gradients"]
    assert str(model).splitlines()[0] == headline(model)


def test_print_names_both_protocols_and_every_attack() -> None:
    result = results.result(20)
    result.attacks[-1].failed = "the model has no gradient."
    text = str(result)
    assert "standard protocol" in text
    assert "paper protocol" in text
    for record in result.attacks:
        assert f"\n{record.name} ({record.knowledge})" in text
    assert "could not run: the model has no gradient." in text
    assert "diagnostic more-steps: failed." in text


def test_print_says_nothing_of_flags_without_a_detector() -> None:
    row = next(line for line in str(results.plain(20)).splitlines() if line.startswith("fgsm"))
    assert row.rstrip().endswith("]")


def test_the_mean_over_draws_stands_beside_the_worst(tmp_path: Path) -> None:
    result = results.result(10)
    result.clean.steady = [1.0] * 8 + [0.5, 0.0]
    first, second = result.attacks[0].answers, result.attacks[1].answers
    first.steady, second.steady = [0.9] * 5 + [1.0] * 5, [0.4] * 2 + [1.0] * 8
    for record in result.attacks[2:]:
        record.answers.steady = []
    # Each image under the attack that lowers its own share most: 0.4, 0.4, 0.9, 0.9, 0.9, 1, 1, 1, 0.5, 0.
    assert metrics.over_draws(result) == pytest.approx((0.85, 0.7))
    assert metrics.right_draws(result) == (result.clean.steady, [0.4, 0.4, 0.9, 0.9, 0.9, 1.0, 1.0, 1.0, 0.5, 0.0])
    assert "mean over draws           clean 85.0 %, robust at most 70.0 %" in str(result)
    write([result], tmp_path / "page.html")
    figures = {key: text for key, (_, text) in read_page((tmp_path / "page.html").read_text()).figures.items()}
    assert [text for key, text in figures.items() if "/draws/" in key] == ["85.0 %", "70.0 %"]
    assert metrics.over_draws(results.result(10)) is None
    assert "mean over draws" not in str(results.result(10))
