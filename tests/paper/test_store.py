"""Results: keys render as files spell them, files are whole, edited ones are refused, digits are counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from alu.errors import StorageError
from alu.paper import EXPERIMENTS, adaptive, artefacts, bpda, learning_rate, one_step, store, table1, table2, threats
from alu.paper.store import (
    Adaptive,
    Column,
    MissingCellError,
    Reading,
    Results,
    both,
    incomplete,
    ones,
    select,
    standing,
)
from tests.conftest import ROOT
from tests.paper.toys import emptied, results

AT = table2.Key("cifar10-at", Column.PGD_ON_VAE)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (AT, "cifar10-at/pgd-20 on f(D(E))"),
        (table2.Key("cifar10-at", Adaptive(Reading.BARE)), "cifar10-at/adaptive, bare"),
        (table1.Key(Adaptive(Reading.INPUT)), "adaptive, input"),
        (table1.Key(table1.Images.CW_FIXED), "cw-l2, c fixed"),
        (bpda.Key("plug-in", Reading.INPUT, bpda.BPDA), "plug-in, input/bpda-eot"),
        (adaptive.Key("cifar10-vae", Reading.ABSTAIN, "Stealth"), "cifar10-vae, abstain/Stealth"),
        (threats.Key(Reading.BARE, "no attack"), "bare/no attack"),
        (learning_rate.Key("gd", "sse", 1e-5), "gd, sse, 1e-05"),
        (learning_rate.Key("adam", "sse", 1.0), "adam, sse, 1"),
        (one_step.Key(10, True), "10 outputs, label of the image"),
        (artefacts.Key("E4", "blur 0.5"), "E4/blur 0.5"),
        (artefacts.SPLIT, "E1 and E5"),
    ],
)
def test_keys_render_as_files_spell_them(key: store.Key, text: str) -> None:
    assert str(key) == text


UNFINISHED = ("check", "certificates", "mixed", "encoder")
"""Experiments that are still being measured: their files hold what is there, or are not there yet."""


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_the_keys_of_an_experiment_are_those_of_its_committed_file(name: str) -> None:
    experiment = EXPERIMENTS[name]
    path = ROOT / "results" / f"{name}.json"
    kept = store.read(path)["cells"] if path.exists() or name not in UNFINISHED else {}
    keys = [str(cell.key) for cell in experiment.cells(experiment.form())]
    if name in UNFINISHED:
        keys = [key for key in keys if key in kept]
    assert list(kept) == keys, "and in the same order"
    assert all(cell.key.experiment == name for cell in experiment.cells(experiment.form()))


def test_columns_know_their_attack() -> None:
    assert [column.heading for column in Column] == [
        "clean", "PGD-20 on f", "PGD-20 on f(D(E))", "AutoAttack on f", "AutoAttack on f(D(E))",
    ]  # fmt: skip
    assert (Column.AUTOATTACK_ON_VAE.attack, Column.AUTOATTACK_ON_VAE.through) == ("autoattack", True)
    assert not Column.PGD_ON_F.through


def test_what_is_not_there_says_why() -> None:
    found = emptied(results({AT: {"n": 1}}), table2.Key("cifar10-at", Column.CLEAN), "nobody trained it.")
    assert found.need(AT) == {"n": 1}
    assert found.get(table2.Key("cifar10-at", Column.CLEAN)) is None
    assert found.why_empty(table2.Key("cifar10-at", Column.CLEAN)) == "nobody trained it."
    assert found.why_empty(table1.Key(table1.Images.PGD)) == "not measured yet"
    assert found.used == {"table1", "table2"}
    with pytest.raises(MissingCellError, match="cifar10-at/clean"):
        found.need(table2.Key("cifar10-at", Column.CLEAN))


def test_a_file_is_read_as_it_was_written_and_not_after_an_edit(tmp_path: Path) -> None:
    path = tmp_path / "toy.json"
    store.write(path, {"experiment": "toy", "cells": {"a": {"found": {"digits": "110"}}}}, 3)
    assert store.read(path)["cells"] == {"a": {"found": {"digits": "110"}}}
    assert Results.open(tmp_path).experiments["toy"]["provenance"]["seed"] == 3
    path.write_text(path.read_text().replace("110", "111"))
    for reading in (lambda: store.read(path), lambda: Results.open(tmp_path)):
        with pytest.raises(StorageError, match="was changed after it was written"):
            reading()
    plain = json.loads(path.read_text())
    path.write_text(json.dumps({**plain, "seed": float("nan")}))
    with pytest.raises(StorageError, match="was changed after it was written"):
        store.read(path)
    path.write_text('{"some": "thing"}')
    with pytest.raises(StorageError, match="is not a result of alu reproduce"):
        store.read(path)
    assert Results.open(tmp_path).experiments == {}, "other files are passed over"


def test_digits() -> None:
    assert (ones("1101").count, ones("1101").n) == (3, 4)
    assert both("1100", "1010") == "1000"
    assert select("1011", "1100") == "10"
    assert select("1011", "1100", "0") == "11"
    assert store.answer({"input": {"alu": "10"}, "bare": "01"}, "input", "alu") == "10"
    assert store.answer({"input": {"alu": "10"}, "bare": "01"}, "bare") == "01"
    assert store.answer({"bare": "01"}, "input", "alu") == ""


def test_a_union_counts_other_attacks_on_the_same_images() -> None:
    assert standing({"adaptive": "12"}, []) == "10", "a rejection is no right answer"
    assert standing({"adaptive": "1121"}, ["1011", "01"]) == "0001"
    assert standing({"adaptive": "11"}, ["1011"]) == "10", "of more images the first are the same"


def test_a_union_that_lacks_an_attack_says_so() -> None:
    assert incomplete({"unmet": [], "failed": {}}) == ""
    assert incomplete({"unmet": ["one more"], "failed": {"soft": "broke"}}) == " INCOMPLETE (one more; soft failed)"
