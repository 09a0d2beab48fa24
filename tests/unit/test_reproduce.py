"""Experiments: measured cell by cell, resumed exactly, empty where a model or data are missing, refused if edited."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from alu import models
from alu.errors import DataError, StorageError, UsageError
from alu.experiments.base import Cell, Experiment
from alu.experiments.catalog import EXPERIMENTS
from alu.experiments.material import Material
from alu.experiments.running import reproduce
from alu.report.paper.results import Results, both, read, share, where
from alu.report.paper.views import VIEWS


class Counted:
    """Cells that count how often they were measured; one of them can be told to fail."""

    def __init__(self) -> None:
        self.runs: dict[str, int] = {}
        self.fail: Exception | KeyboardInterrupt | None = None
        self.version = 1

    def experiment(self) -> Experiment:
        return Experiment("toy", "A toy", "Does it count?", self.cells, {"n": 3}, {"n": 1}, "Nothing.", "It is a toy.")

    def cells(self, material: Material) -> list[Cell]:
        def run(key: str) -> dict[str, Any]:
            if key == "second" and self.fail is not None:
                raise self.fail
            self.runs[key] = self.runs.get(key, 0) + 1
            return {"n": material.sizes["n"], "digits": "1" * material.sizes["n"]}

        return [
            Cell("first", lambda: run("first"), ("cifar10-standard",)),
            Cell("second", lambda: run("second"), version=self.version),
            Cell("third", lambda: run("third"), ("cifar10-nobody", "cifar10-standard")),
        ]


def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    toy, out = Counted(), tmp_path / "toy.json"
    toy.fail = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        reproduce(toy.experiment(), out)
    assert set(read(out)["cells"]) == {"first"}
    toy.fail = None
    result = reproduce(toy.experiment(), out)
    assert toy.runs == {"first": 1, "second": 1}, "what was there is not measured again"
    assert read(out)["cells"] == result["cells"]
    assert result["cells"]["third"] == {"absent": "cifar10-nobody has not been trained yet."}
    assert not result["complete"]
    reproduce(toy.experiment(), out, fresh=True)
    assert toy.runs == {"first": 2, "second": 2}


def test_only_some_cells_are_measured_and_the_others_stay(tmp_path: Path) -> None:
    toy, out = Counted(), tmp_path / "toy.json"
    some = reproduce(toy.experiment(), out, only="s*")
    assert toy.runs == {"second": 1}
    assert not some["complete"]
    reproduce(toy.experiment(), out, only="first")
    assert toy.runs == {"first": 1, "second": 1}
    assert list(read(out)["cells"]) == ["first", "second"], "in the experiment's order"
    assert reproduce(toy.experiment(), out, only="first", fresh=True)["cells"]["second"] == some["cells"]["second"]
    assert toy.runs == {"first": 2, "second": 1}
    with pytest.raises(UsageError, match=r"toy has no cell 'secund'. Did you mean second"):
        reproduce(toy.experiment(), out, only="secund")


def test_a_long_cell_has_a_folder_that_an_interruption_leaves(tmp_path: Path) -> None:
    toy, out, seen = Counted(), tmp_path / "toy.json", []

    def cells(material: Material) -> list[Cell]:
        def run() -> dict[str, Any]:
            assert material.work is not None
            seen.append(material.work.exists())
            material.work.mkdir(parents=True, exist_ok=True)
            if len(seen) == 1:
                raise KeyboardInterrupt
            return {"n": 1}

        return [Cell("a/b, c", run)]

    experiment = replace(toy.experiment(), cells=cells)
    with pytest.raises(KeyboardInterrupt):
        reproduce(experiment, out)
    reproduce(experiment, out)
    assert seen == [False, True]
    assert [path.name for path in tmp_path.iterdir()] == ["toy.json"]


def test_fresh_replaces_an_edited_file(tmp_path: Path) -> None:
    toy, out = Counted(), tmp_path / "toy.json"
    reproduce(toy.experiment(), out)
    out.write_text(out.read_text().replace('"111"', '"110"'))
    with pytest.raises(StorageError, match="changed after it was written"):
        reproduce(toy.experiment(), out)
    reproduce(toy.experiment(), out, fresh=True)
    assert toy.runs == {"first": 2, "second": 2}


def test_measuring_again_keeps_what_is_not_measured_yet(tmp_path: Path) -> None:
    toy, out = Counted(), tmp_path / "toy.json"
    before = reproduce(toy.experiment(), out)["cells"]
    toy.fail = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        reproduce(toy.experiment(), out, fresh=True)
    assert toy.runs == {"first": 2, "second": 1}
    assert read(out)["cells"]["second"] == before["second"]


def test_a_cell_outlives_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy, out = Counted(), tmp_path / "toy.json"
    before = reproduce(toy.experiment(), out)["cells"]["first"]
    monkeypatch.setattr(models, "names", lambda *_: [])
    assert reproduce(toy.experiment(), out)["cells"]["first"] == before


def test_a_quick_form_says_what_it_leaves_out(tmp_path: Path) -> None:
    experiment = replace(Counted().experiment(), leaves_out="Left out: the moon.")
    assert reproduce(experiment, tmp_path / "quick.json", quick=True)["leaves out"] == "Left out: the moon."
    assert "leaves out" not in reproduce(experiment, tmp_path / "full.json")


def test_a_place_that_cannot_be_written_to_is_known_at_once(tmp_path: Path) -> None:
    toy = Counted()
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="Cannot write"):
        reproduce(toy.experiment(), tmp_path / "file" / "toy.json")
    assert toy.runs == {}


def test_other_weights_are_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy, out = Counted(), tmp_path / "toy.json"
    reproduce(toy.experiment(), out)
    known = models.card("cifar10-standard")
    monkeypatch.setattr(models, "card", lambda name: replace(known, sha256="another" + known.sha256))
    reproduce(toy.experiment(), out)
    assert toy.runs == {"first": 2, "second": 1}


def test_another_version_is_measured_again(tmp_path: Path) -> None:
    toy, out = Counted(), tmp_path / "toy.json"
    reproduce(toy.experiment(), out)
    toy.version = 2
    for _ in range(2):
        assert reproduce(toy.experiment(), out)["cells"]["second"]["version"] == 2
        assert toy.runs == {"first": 1, "second": 2}


def test_missing_data_leave_a_cell_empty_until_they_are_there(tmp_path: Path) -> None:
    toy, out = Counted(), tmp_path / "toy.json"
    toy.fail = DataError("cifar100 is not there.")
    assert reproduce(toy.experiment(), out)["cells"]["second"] == {"absent": "cifar100 is not there."}
    toy.fail = None
    assert "found" in reproduce(toy.experiment(), out)["cells"]["second"]


def test_quick_and_full_and_seeds_do_not_mix(tmp_path: Path) -> None:
    toy, out = Counted(), tmp_path / "toy.json"
    reproduce(toy.experiment(), out, quick=True)
    with pytest.raises(StorageError, match=r"was measured with sizes .* --fresh"):
        reproduce(toy.experiment(), out)
    with pytest.raises(StorageError, match="with seed 0, not 1"):
        reproduce(toy.experiment(), out, quick=True, seed=1)


def test_an_edited_or_foreign_file_is_refused(tmp_path: Path) -> None:
    toy, out = Counted(), tmp_path / "toy.json"
    reproduce(toy.experiment(), out)
    plain = json.loads(out.read_text())
    plain["cells"]["first"]["found"]["digits"] = "000"
    out.write_text(json.dumps(plain))
    with pytest.raises(StorageError, match="was changed after it was written"):
        reproduce(toy.experiment(), out)
    out.write_text('{"some": "thing"}')
    with pytest.raises(StorageError, match="is not a result of alu reproduce"):
        reproduce(toy.experiment(), out)
    assert out.read_text() == '{"some": "thing"}'


def test_every_cell_says_where_it_comes_from(tmp_path: Path) -> None:
    toy, out = Counted(), tmp_path / "toy.json"
    record = reproduce(toy.experiment(), out)["cells"]["first"]
    assert record["weights"] == {"cifar10-standard": models.card("cifar10-standard").sha256[:12]}
    assert record["commit"]
    assert record["seconds"] >= 0
    assert read(out)["provenance"]["seed"] == 0


def test_shares_of_digits() -> None:
    assert (share("1101").count, share("1101").n) == (3, 4)
    assert both("1100", "1010") == "1000"
    assert where("1011", "1100") == "10"
    assert where("1011", "1100", "0") == "11"


def test_every_experiment_has_a_view_and_sizes_of_both_forms() -> None:
    assert set(VIEWS) == set(EXPERIMENTS)
    for experiment in EXPERIMENTS.values():
        assert set(experiment.full) == set(experiment.quick)
        assert all(experiment.quick[key] <= value for key, value in experiment.full.items()), experiment.name
        assert experiment.why.endswith(".")
        assert experiment.differs.endswith(".")
        assert experiment.question.endswith("?")


@pytest.mark.parametrize("name", list(VIEWS))
def test_an_empty_view_says_so(name: str) -> None:
    shown = VIEWS[name](Results({name: {"cells": {}}}))
    assert shown, "a view without results still shows something"
    assert all(isinstance(part.html(), str) for part in shown)
