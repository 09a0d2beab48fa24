"""alu predict, run as a command: files and folders in; table, JSON lines or CSV out."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from tests.end_to_end.command import ENVIRONMENT, alu, snapshot
from tests.end_to_end.own_classifier import stripes, write_classifier, write_pictures

ALL_READ = "alu: 6 files: 0 flagged, 0 corrupted, 0 not answered, 0 not read.\n"
FIELDS = ["file", "label", "class", "accepted", "flagged", "state", "score", "p_value", "error"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a classifier, a defence around it (defense) and pictures to answer for (photos)."""
    folder = tmp_path_factory.mktemp("predict")
    write_classifier(folder)
    write_pictures(folder / "pics")
    words = ("--classifier", "own:build", "--data", "pics", "--false-alarm", 0.05, "--purifier", "pca")
    assert alu(folder, "fit", *words, "--out", "defense").code == 0
    photos = folder / "photos"
    photos.mkdir()
    for number in range(6):
        name = f"{number} [bold].png" if number == 3 else f"{number}.png"
        Image.fromarray(stripes(number % 2, (16, 16), 3, 1000 + number)).save(photos / name)
    return folder


@pytest.fixture
def mixed(place: Path, tmp_path: Path) -> Path:
    """Six good pictures, and a text named .png, a cut one, one of another size and a gray one."""
    photos = tmp_path / "mixed"
    shutil.copytree(place / "photos", photos)
    (photos / "text.png").write_text("not a picture")
    (photos / "cut.png").write_bytes((photos / "0.png").read_bytes()[:80])
    Image.fromarray(stripes(1, (20, 40), 3, 7)).save(photos / "wide.png")
    Image.fromarray(stripes(1, (16, 16), 1, 7)).save(photos / "gray.png")
    return photos


def test_json_lines(place: Path) -> None:
    done = alu(place, "predict", "defense", "photos", "--trust", "--format", "jsonl")
    assert (done.code, done.err) == (0, ALL_READ)
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [list(row) for row in rows] == [FIELDS] * 6
    assert [row["class"] for row in rows] == ["lying", "standing"] * 3
    assert [row["label"] for row in rows] == [0, 1] * 3
    assert all(row["accepted"] and row["error"] is None and 0 < row["p_value"] <= 1 for row in rows)
    assert all(row["state"] in ("clean", "suspicious") for row in rows), "none is flagged"


def test_csv_says_the_same_at_every_batch_size(place: Path) -> None:
    words = ("predict", "defense", "photos", "--trust")
    lines = alu(place, *words, "--format", "jsonl").out.splitlines()
    done = alu(place, *words, "--format", "csv", "--batch-size", 4)
    assert (done.code, done.err) == (0, ALL_READ)
    rows = list(csv.DictReader(done.out.splitlines()))
    assert list(rows[0]) == FIELDS
    for row, line in zip(rows, lines, strict=True):
        told = json.loads(line)
        assert (row["file"], row["class"], row["flagged"]) == (told["file"], told["class"], str(told["flagged"]))
        assert row["state"] == told["state"]
        assert float(row["score"]) == pytest.approx(told["score"], abs=1e-3)


def test_table(place: Path) -> None:
    done = alu(place, "predict", "defense", "photos", "--trust")
    assert (done.code, done.err) == (0, "")
    lines = [line for line in done.out.splitlines() if ".png" in line]
    assert len(lines) == 6
    assert "standing" in lines[1]
    assert all("clean" in line or "suspicious" in line for line in lines)
    assert "3 [bold].png" in lines[3]
    assert done.out.splitlines()[-1] == "6 files: 0 flagged, 0 corrupted, 0 not answered, 0 not read."


def test_a_narrow_screen_does_not_cut_names(place: Path) -> None:
    done = alu(place, "predict", "defense", place / "photos" / "4.png", "--trust", COLUMNS="60")
    cells = [line.split("│")[1].strip() for line in done.out.splitlines() if line.startswith("│")]
    assert len(cells) > 1
    assert "".join(cells) == str(place / "photos" / "4.png")


def test_bad_files_are_reported_and_the_rest_go_on(place: Path, mixed: Path) -> None:
    done = alu(place, "predict", "defense", mixed, "nowhere.png", "--trust", "--format", "jsonl", "--batch-size", 3)
    assert done.code == 3
    rows = {Path(row["file"]).name: row for row in map(json.loads, done.out.splitlines())}
    bad = {name for name, row in rows.items() if row["error"]}
    assert bad == {"text.png", "cut.png", "wide.png", "nowhere.png"}
    assert all(rows[name]["label"] is None for name in bad)
    assert rows["gray.png"]["class"] == "standing"
    assert sum(row["class"] is not None for row in rows.values()) == 7
    assert "40 x 20 pixels; this defence reads 16 x 16. Add --resize" in rows["wide.png"]["error"]
    told = done.err.splitlines()
    assert len(told) == 5
    flagged = sum(bool(row["flagged"]) for row in rows.values())
    corrupted = sum(row["state"] == "corrupted" for row in rows.values())
    assert told[-1] == f"alu: 11 files: {flagged} flagged, {corrupted} corrupted, 0 not answered, 4 not read."
    assert all(line.startswith("alu: ") for line in told)
    table = alu(place, "predict", "defense", mixed, "--trust")
    assert (table.code, table.out.count("│ not read")) == (3, 3)


def test_resize(place: Path, mixed: Path) -> None:
    done = alu(place, "predict", "defense", mixed / "wide.png", "--trust", "--resize", "--format", "jsonl")
    assert done.code == 0
    assert json.loads(done.out)["error"] is None
    assert done.err.splitlines()[0] == (
        "alu: warning: --resize cuts more than a tenth of the picture away in 1 of 1 files; most in "
        f"{mixed / 'wide.png'}, which loses 50 %."
    )
    assert "cuts" not in alu(place, "predict", "defense", "photos", "--trust", "--resize", "--format", "jsonl").err


def test_out_is_written_whole(place: Path, tmp_path: Path) -> None:
    words = ("predict", "defense", "photos", "--trust", "--format", "csv")
    done = alu(place, *words, "--out", tmp_path / "new" / "answers.csv")
    assert (done.code, done.out, done.err) == (0, "", ALL_READ)
    assert (tmp_path / "new" / "answers.csv").read_text() == alu(place, *words).out
    assert sorted(snapshot(tmp_path)) == ["new", "new/answers.csv"]
    assert alu(place, *words, "--out", tmp_path / "new" / "answers.csv").code == 0, "its own file is replaced"


def test_trust(place: Path) -> None:
    before = snapshot(place)
    refused = alu(place, "predict", "defense", "photos")
    assert refused.code == 1
    assert "own:build" in refused.sentence()
    assert "--trust" in refused.sentence()
    named = alu(place, "predict", "defense", "photos", "--classifier", "own:build", "--format", "jsonl")
    assert (named.code, named.err) == (0, ALL_READ)
    assert named.out == alu(place, "predict", "defense", "photos", "--trust", "--format", "jsonl").out
    assert snapshot(place) == before


def test_what_is_not_answered_is_counted(place: Path, tmp_path: Path) -> None:
    words = ("--classifier", "own:build", "--data", "pics", "--false-alarm", 0.05, "--purifier", "pca")
    assert alu(place, "fit", *words, "--out", tmp_path / "defense", "--rule", "abstain", "--force").code == 0
    done = alu(place, "predict", tmp_path / "defense", "pics", "--trust", "--format", "jsonl")
    rows = [json.loads(line) for line in done.out.splitlines()]
    flagged = sum(row["flagged"] for row in rows)
    assert flagged > 0, "or the test shows nothing"
    corrupted = sum(row["state"] == "corrupted" for row in rows)
    told = f"{flagged} flagged, {corrupted} corrupted, {flagged} not answered"
    assert done.err == f"alu: 140 files: {told}, 0 not read.\n"


def test_from_another_folder_than_the_module(place: Path, tmp_path: Path) -> None:
    done = alu(tmp_path, "predict", place / "defense", place / "photos", "--trust")
    assert "No module named 'own'" in done.sentence()
    assert "Run this from the folder that holds own, or add that folder to PYTHONPATH." in done.sentence()
    command = [Path(sys.executable).with_name("alu"), "predict", place / "defense", place / "photos", "--trust"]
    path = os.pathsep.join([str(place), ENVIRONMENT.get("PYTHONPATH", "")])
    environment = {**ENVIRONMENT, "PYTHONPATH": path}
    named = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert named.returncode == 0, named


def test_another_classifier_is_refused(place: Path, tmp_path: Path) -> None:
    write_classifier(tmp_path, classes=3)
    done = alu(tmp_path, "predict", place / "defense", place / "photos", "--trust")
    assert "its weights differ" in done.sentence()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("predict", "defense", "photos", "--format", "josnl"), "Did you mean jsonl?"),
        (("predict", "defense", "photos", "--out", "answers"), "choose --format jsonl"),
        (("predict", "defense", "photos", "--trust", "--device", "cuba"), "no device 'cuba'"),
        (("predict", "defense", "photos", "--trust", "--device", "meta"), "no device 'meta'"),
        (("predict", "defense", "empty", "--trust"), "There is no picture in empty"),
        (("predict", "pics", "photos", "--trust"), "pics is not a saved defence"),
        (("predict", "nowhere", "photos", "--trust"), "nowhere is not a saved defence"),
        (("predict", "pickled", "photos", "--trust"), "its checksum does not match"),
        (("predict", "torn", "photos", "--trust"), "is not valid JSON"),
        (("predict", "defense", "photos", "--classifier", "own:biuld"), "own has no biuld"),
        (("predict", "defense", "photos", "--trust", "--format", "csv", "--out", "own.py/a.csv"), "cannot be written"),
        (("predict", "defense", "photos", "--trust", "--format", "csv", "--out", "own.py"), "is not a table"),
        (("predict", "defense", "photos", "--trust", "--format", "csv", "--out", "photos"), "is a folder"),
    ],
)
def test_one_sentence_and_nothing_changed(place: Path, words: tuple[str, ...], expected: str) -> None:
    (place / "empty").mkdir(exist_ok=True)
    for name, broken in (("pickled", "weights.safetensors"), ("torn", "defense.json")):
        shutil.copytree(place / "defense", place / name, dirs_exist_ok=True)
        (place / name / broken).write_bytes(b"\x80\x04c__builtin__\nprint\n(X\x04\x00\x00\x00evil\x85R.")
    before = snapshot(place)
    done = alu(place, *words)
    assert expected in done.sentence()
    assert done.out == ""
    assert snapshot(place) == before
