"""Runs go cell by cell, resume exactly, leave cells empty where models or data are missing, refuse edited files."""

from __future__ import annotations

import doctest
from dataclasses import replace
from pathlib import Path

import pytest

from alu import models
from alu.errors import DataError, StorageError, UsageError
from alu.paper import store
from alu.paper.base import Cell, Experiment
from alu.paper.running import reproduce, run
from alu.paper.store import Measured, read
from alu.paper.views import Table
from alu.paper.workbench import Workbench


class Key(store.Key, experiment="toy"):
    """One of three."""

    name: str


class Counted:
    """Cells that count how often they were measured; one of them can be decided to fail."""

    def __init__(self) -> None:
        self.runs: dict[str, int] = {}
        self.fail: Exception | KeyboardInterrupt | None = None
        self.version = 1

    def experiment(self) -> Experiment[Key]:
        return Experiment(
            Key, self.cells, self.measure, lambda results: [Table.empty("Toy")], "A toy", "Does it count?",
            {"n": (3, 1)}, "Nothing.", "It is a toy.",
        )  # fmt: skip

    def cells(self, sizes: dict[str, int]) -> list[Cell[Key]]:
        return [
            Cell(Key("first"), ("cifar10-standard",)),
            Cell(Key("second"), version=self.version),
            Cell(Key("third"), ("cifar10-nobody", "cifar10-standard")),
        ]

    def measure(self, bench: Workbench, key: Key) -> Measured:
        if key.name == "second" and self.fail is not None:
            raise self.fail
        self.runs[key.name] = self.runs.get(key.name, 0) + 1
        return {"n": bench.sizes["n"], "digits": "1" * bench.sizes["n"]}


def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    toy, out = Counted(), tmp_path / "toy.json"
    toy.fail = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        run(toy.experiment(), out)
    assert set(read(out)["cells"]) == {"first"}
    toy.fail = None
    result = run(toy.experiment(), out)
    assert toy.runs == {"first": 1, "second": 1}, "what was there is not measured again"
    assert read(out)["cells"] == result["cells"]
    assert result["cells"]["third"] == {"absent": "cifar10-nobody has not been trained yet."}
    assert not result["complete"]
    run(toy.experiment(), out, fresh=True)
    assert toy.runs == {"first": 2, "second": 2}


def test_only_some_cells_are_measured_and_the_others_stay(tmp_path: Path) -> None:
    toy, out = Counted(), tmp_path / "toy.json"
    some = run(toy.experiment(), out, only="s*")
    assert toy.runs == {"second": 1}
    assert not some["complete"]
    run(toy.experiment(), out, only="first")
    assert toy.runs == {"first": 1, "second": 1}
    assert list(read(out)["cells"]) == ["first", "second"], "in the experiment's order"
    assert run(toy.experiment(), out, only="first", fresh=True)["cells"]["second"] == some["cells"]["second"]
    assert toy.runs == {"first": 2, "second": 1}
    with pytest.raises(UsageError, match=r"toy has no cell 'secund'. Did you mean second"):
        run(toy.experiment(), out, only="secund")


def test_a_long_cell_has_a_folder_that_an_interruption_leaves(tmp_path: Path) -> None:
    out, seen = tmp_path / "toy.json", []

    def measure(bench: Workbench, key: Key) -> Measured:
        assert bench.work is not None
        seen.append(bench.work.exists())
        bench.work.mkdir(parents=True, exist_ok=True)
        if len(seen) == 1:
            raise KeyboardInterrupt
        return {"n": 1}

    experiment = replace(Counted().experiment(), cells=lambda sizes: [Cell(Key("a/b, c"))], measure=measure)
    with pytest.raises(KeyboardInterrupt):
        run(experiment, out)
    run(experiment, out)
    assert seen == [False, True]
    assert [path.name for path in tmp_path.iterdir()] == ["toy.json"]


def test_fresh_replaces_an_edited_file(tmp_path: Path) -> None:
    toy, out = Counted(), tmp_path / "toy.json"
    run(toy.experiment(), out)
    out.write_text(out.read_text().replace('"111"', '"110"'))
    with pytest.raises(StorageError, match="changed after it was written"):
        run(toy.experiment(), out)
    run(toy.experiment(), out, fresh=True)
    assert toy.runs == {"first": 2, "second": 2}


def test_measuring_again_keeps_what_is_not_measured_yet(tmp_path: Path) -> None:
    toy, out = Counted(), tmp_path / "toy.json"
    before = run(toy.experiment(), out)["cells"]
    toy.fail = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        run(toy.experiment(), out, fresh=True)
    assert toy.runs == {"first": 2, "second": 1}
    assert read(out)["cells"]["second"] == before["second"]


def test_a_cell_outlives_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy, out = Counted(), tmp_path / "toy.json"
    before = run(toy.experiment(), out)["cells"]["first"]
    monkeypatch.setattr(models, "names", lambda *_: [])
    assert run(toy.experiment(), out)["cells"]["first"] == before


def test_a_quick_form_says_what_it_leaves_out(tmp_path: Path) -> None:
    experiment = replace(Counted().experiment(), leaves_out="Left out: the moon.")
    assert run(experiment, tmp_path / "quick.json", quick=True)["leaves out"] == "Left out: the moon."
    assert "leaves out" not in run(experiment, tmp_path / "full.json")


def test_a_place_that_cannot_be_written_to_is_known_at_once(tmp_path: Path) -> None:
    toy = Counted()
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="Cannot write"):
        run(toy.experiment(), tmp_path / "file" / "toy.json")
    assert toy.runs == {}


def test_other_weights_are_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy, out = Counted(), tmp_path / "toy.json"
    run(toy.experiment(), out)
    known = models.card("cifar10-standard")
    monkeypatch.setattr(models, "card", lambda name: replace(known, sha256="another" + known.sha256))
    run(toy.experiment(), out)
    assert toy.runs == {"first": 2, "second": 1}


def test_another_version_is_measured_again(tmp_path: Path) -> None:
    toy, out = Counted(), tmp_path / "toy.json"
    run(toy.experiment(), out)
    toy.version = 2
    for _ in range(2):
        assert run(toy.experiment(), out)["cells"]["second"]["version"] == 2
        assert toy.runs == {"first": 1, "second": 2}


def test_missing_data_leave_a_cell_empty_until_they_are_there(tmp_path: Path) -> None:
    toy, out = Counted(), tmp_path / "toy.json"
    toy.fail = DataError("cifar100 is not there.")
    assert run(toy.experiment(), out)["cells"]["second"] == {"absent": "cifar100 is not there."}
    toy.fail = None
    assert "found" in run(toy.experiment(), out)["cells"]["second"]


def test_quick_and_full_and_seeds_do_not_mix(tmp_path: Path) -> None:
    toy, out = Counted(), tmp_path / "toy.json"
    run(toy.experiment(), out, quick=True)
    with pytest.raises(StorageError, match=r"was measured with sizes .* fresh=True"):
        run(toy.experiment(), out)
    with pytest.raises(StorageError, match="with seed 0, not 1"):
        run(toy.experiment(), out, quick=True, seed=1)


def test_a_foreign_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "toy.json"
    out.write_text('{"some": "thing"}')
    with pytest.raises(StorageError, match="is not a result of alu reproduce"):
        run(Counted().experiment(), out)
    assert out.read_text() == '{"some": "thing"}'


def test_every_cell_says_where_it_comes_from(tmp_path: Path) -> None:
    toy, out = Counted(), tmp_path / "toy.json"
    record = run(toy.experiment(), out)["cells"]["first"]
    assert record["weights"] == {"cifar10-standard": models.card("cifar10-standard").sha256[:12]}
    assert record["commit"]
    assert record["seconds"] >= 0
    assert read(out)["provenance"]["seed"] == 0


def test_a_table_in_python_prints_and_has_rows(tmp_path: Path) -> None:
    table = reproduce("one-step", quick=True, out=tmp_path)
    assert [row[0] for row in table.rows] == ["1 outputs", "1 outputs, label of the image", "10 outputs",
                                              "10 outputs, label of the image"]  # fmt: skip
    assert str(table).startswith("== One step with the right learning rate ==")
    assert table.verdicts["one step suffices in theory"].status == "too few images to tell"
    assert (tmp_path / "one-step.json").is_file()
    with pytest.raises(UsageError, match="There is no experiment 'tabel2'"):
        reproduce("tabel2", out=tmp_path)


def test_the_example_in_the_docstring_runs() -> None:
    tested = doctest.DocTestRunner().run(doctest.DocTestFinder().find(reproduce, "reproduce", globs={})[0])
    assert tested.failed == 0
    assert tested.attempted == 4
