"""alu export, run as a command: a folder of graphs, and alu predict from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.end_to_end.command import alu, snapshot
from tests.end_to_end.own_classifier import write_classifier, write_pictures


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier, pictures, a defence around it, its export, and a folder of the user's."""
    folder = tmp_path_factory.mktemp("export")
    write_classifier(folder)
    write_pictures(folder / "pics")
    (folder / "mine").mkdir()
    (folder / "mine" / "notes.txt").write_text("mine")
    words = ("--classifier", "own:build", "--data", "pics", "--false-alarm", 0.05, "--purifier", "median")
    assert alu(folder, "fit", *words, "--out", "defense").code == 0
    done = alu(folder, "export", "defense", "--trust", "--data", "pics", "--out", "exported")
    assert (done.code, done.err) == (0, "")
    assert "Exported to exported: " in done.out
    assert "graphs classify, rule." in done.out
    assert "clean images by onnxruntime" in done.out
    return folder


def test_predict_answers_from_an_export_as_from_the_defence(place: Path) -> None:
    rows = []
    for words in (("defense", "--trust"), ("exported",)):
        done = alu(place, "predict", words[0], "pics", *words[1:], "--format", "jsonl")
        assert done.code == 0, done
        rows.append([json.loads(line) for line in done.out.splitlines()])
    assert len(rows[0]) > 100
    for ours, theirs in zip(*rows, strict=True):
        for name in ("file", "label", "class", "accepted", "flagged", "state"):
            assert ours[name] == theirs[name], ours
        assert ours["score"] == pytest.approx(theirs["score"], abs=1e-3)
        assert ours["p_value"] == pytest.approx(theirs["p_value"], abs=1.5 / 22)


def test_without_images_the_scores_of_torch_are_kept_and_it_says_so(place: Path, tmp_path: Path) -> None:
    done = alu(place, "export", "defense", "--trust", "--out", tmp_path / "export")
    assert done.code == 0, done
    assert "by torch" in done.out
    assert done.err.startswith("alu: warning: p-values compare scores of onnxruntime with clean scores of torch")
    assert done.err.count("\n") == 1


BAD = {
    "not trusted": (("defense", "--out", "new"), 1, "--trust"),
    "no defence": (("nothing", "--out", "new"), 2, "Unknown model or defence 'nothing'"),
    "a classifier": (("cifar10-standard", "--out", "new"), 2, "is a classifier and no defence"),
    "an export": (("exported", "--out", "new"), 2, "is an exported defence, which answers without torch"),
    "not ours": (("defense", "--trust", "--out", "mine"), 1, "mine is already there and is no export of alu"),
    "a defence": (("defense", "--trust", "--out", "defense"), 1, "defense is already there and is no export"),
    "among the pictures": (("defense", "--trust", "--data", "pics", "--out", "pics/new"), 2, "taken for a class"),
    "size without data": (("defense", "--trust", "--size", "8", "--out", "new"), 2, "Give --data, or leave them out"),
    "another size": (
        ("defense", "--trust", "--data", "pics", "--size", "8", "--out", "new"),
        1,
        "calibrated on images of 3 x 16 x 16",
    ),
    "no data": (("defense", "--trust", "--data", "nowhere", "--out", "new"), 2, "There is no data set 'nowhere'"),
}


@pytest.mark.parametrize("name", BAD)
def test_wrong_words_are_one_sentence_and_change_nothing(place: Path, name: str) -> None:
    words, code, sentence = BAD[name]
    before = snapshot(place)
    done = alu(place, "export", *words)
    assert sentence in done.sentence()
    assert done.code == code
    assert snapshot(place) == before


def test_predict_says_what_an_export_cannot_do(place: Path) -> None:
    done = alu(place, "predict", "exported", "pics", "--classifier", "own:build")
    assert "exported is an export: its classifier is in it, and it runs on the CPU" in done.sentence()
