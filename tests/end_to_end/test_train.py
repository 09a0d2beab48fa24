"""alu train, run as a command: on one's own pictures, interrupted, in two processes, and with bad input."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from alu import data, models
from tests.end_to_end.command import ENVIRONMENT, alu, disk_of, fresh, snapshot, start
from tests.end_to_end.own_classifier import stripes, write_classifier, write_pictures
from tests.end_to_end.test_bad_input import small_files_only

QUICK = ("--set", "epochs=4", "--set", "batch_size=14")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """140 good pictures, of which 98 are for training, and bad ones."""
    folder = tmp_path_factory.mktemp("train")
    write_classifier(folder)
    write_pictures(folder / "pics")
    write_pictures(folder / "one", classes=1, each=20)
    write_pictures(folder / "odd", shape=(18, 18), each=20)
    shutil.copytree(folder / "one", folder / "sizes")
    (folder / "sizes" / "standing").mkdir()
    Image.fromarray(stripes(1, (18, 16), 3, 0)).save(folder / "sizes" / "standing" / "big.png")
    return folder


def test_a_classifier_of_ones_own_pictures(place: Path, tmp_path: Path) -> None:
    done = alu(place, "train", "classifier", "--data", "pics", "--out", tmp_path / "run", "--set", "epochs=12")
    assert (done.code, done.err) == (0, ""), done
    assert f"Saved as {tmp_path / 'run' / 'model.safetensors'}" in done.out
    assert set(snapshot(tmp_path / "run")) == {
        "best.safetensors", "checkpoint.safetensors", "curve.jsonl", "curve.svg", "model.json", "model.safetensors",
        "run.json",
    }  # fmt: skip
    model = models.load_file(tmp_path / "run" / "model.safetensors")
    card = model.card
    assert isinstance(card, models.Card)
    assert card.classes == ("lying", "standing")
    assert card.data == "pics, 98 images of its train split"
    assert card.command.startswith("alu train classifier --data pics")
    test = data.folder(place / "pics", "test")
    with torch.no_grad():
        right = (model(test.images).argmax(1) == test.labels).float().mean()
    assert float(right) >= 0.9


def test_a_vae_of_ones_own_pictures_is_a_purifier_for_fit(place: Path, tmp_path: Path) -> None:
    done = alu(place, "train", "vae", "--data", "odd", "--size", "16", "--out", tmp_path / "run", *QUICK)
    assert (done.code, done.err) == (0, ""), done
    weights = tmp_path / "run" / "model.safetensors"
    words = ("--classifier", "own:build", "--data", "pics", "--false-alarm", 0.05, "--purifier", weights, "--steps", 2)
    done = alu(place, "fit", *words, "--out", tmp_path / "defense", "--force")
    assert (done.code, done.unwarned) == (0, ""), done


BAD = {
    "one class": (("classifier", "--data", "one"), "one holds one folder, lying; expected one sub-folder per class"),
    "sizes differ": (("classifier", "--data", "sizes"), "Make all pictures one size, or give --size to scale them."),
    "odd size": (("vae", "--data", "odd"), "18 x 18. Scale a folder of pictures: --size 16."),
    "missing folder": (("classifier", "--data", "not/there"), "not/there does not exist"),
    "unknown recipe": (("clasifier", "--data", "pics"), "no recipe 'clasifier'. Did you mean classifier"),
    "no recipe": (("--data", "pics"), "needs the name of a recipe. See: alu train --list."),
    "unknown key": (("classifier", "--data", "pics", "--set", "epoch=3"), "no setting 'epoch'. Did you mean epochs"),
    "no key": (("classifier", "--data", "pics", "--set", "3"), "expected KEY=VALUE"),
    "word for number": (("classifier", "--data", "pics", "--set", "lr=fast"), "lr is a number; 'fast' is none"),
    "unknown schedule": (("vae", "--data", "pics", "--set", "schedule=cosin"), "Did you mean cosine"),
    "no data": (("vae",), "images of your own. Say where they are: --data FOLDER"),
    "data for a known set": (("cifar10-vae", "--data", "pics"), "trains on cifar10. With --data"),
    "unknown device": (("vae", "--data", "pics", "--device", "cuba"), "no device 'cuba'"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_one_sentence_and_nothing_changed(place: Path, case: str) -> None:
    words, expected = BAD[case]
    before = snapshot(place)
    done = alu(place, "train", *words)
    assert expected in done.sentence()
    assert done.out == ""
    assert snapshot(place) == before


def test_a_diverging_training_stops_and_keeps_the_last_good_checkpoint(place: Path, tmp_path: Path) -> None:
    words = ("train", "classifier", "--data", "pics", "--out", tmp_path, *QUICK, "--every", 0)
    done = alu(place, *words, "--set", "lr=1e30")
    sentence = done.sentence()
    assert "start again in another folder with a smaller lr, or with clip=1" in sentence
    kept = load_file(tmp_path / "checkpoint.safetensors")
    assert all(torch.isfinite(tensor).all() for tensor in kept.values() if tensor.is_floating_point())
    assert "model.safetensors" not in snapshot(tmp_path)


def test_another_configuration_is_not_resumed(place: Path, tmp_path: Path) -> None:
    words = ("train", "classifier", "--data", "pics", "--out", tmp_path, *QUICK)
    assert alu(place, *words).code == 0
    before = snapshot(tmp_path)
    done = alu(place, *words, "--set", "lr=0.01")
    assert "belongs to another run: lr was 0.05 and is now 0.01. Go on with the old settings" in done.sentence()
    done = alu(place, "train", "classifier", "--data", "odd", "--out", tmp_path, *QUICK)
    assert 'data was ["pics", "train", 98, [3, 16, 16], "' in done.sentence()
    assert 'and is now ["odd"' in done.sentence()
    assert snapshot(tmp_path) == before


def test_a_file_that_may_not_grow(place: Path, tmp_path: Path) -> None:
    words = ("train", "vae", "--data", "pics", "--out", tmp_path / "run", *QUICK)
    done = fresh(place, *words, preexec_fn=small_files_only)
    assert f"Cannot write {tmp_path / 'run' / 'best.safetensors'}: File too large." in done.sentence()
    assert set(snapshot(tmp_path / "run")) == {"run.json", "curve.jsonl"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with disk_of("3m", tmp_path) as disk:
        yield disk


def test_a_full_disk(place: Path, small_disk: Path) -> None:
    # The best weights (1 MB) fit, the checkpoint (4 MB) does not.
    done = alu(place, "train", "vae", "--data", "pics", "--out", small_disk / "run", *QUICK)
    assert "checkpoint.safetensors: the disk is full. Free some space and run the command again." in done.sentence()
    assert {"best.safetensors", "curve.jsonl", "run.json"} == set(snapshot(small_disk / "run"))


def steps_done(checkpoint: Path) -> int:
    """Steps that a checkpoint has behind it; 0 if there is none."""
    # Read through one open file: safetensors opens the path twice, and the training may replace it in between.
    try:
        with checkpoint.open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    except FileNotFoundError:
        return 0
    return int(json.loads(header["__metadata__"]["progress"])["step"])


def test_kill_9_in_an_epoch_and_resume_give_the_same_bits(place: Path, tmp_path: Path) -> None:
    words = ("train", "classifier", "--data", "pics", *QUICK, "--set", "epochs=5")
    assert alu(place, *words, "--out", tmp_path / "whole").code == 0
    process = start(place, *words, "--out", tmp_path / "cut", "--every", 0)
    checkpoint, per_epoch = tmp_path / "cut" / "checkpoint.safetensors", 98 // 14
    deadline = time.monotonic() + 60
    while not (steps_done(checkpoint) > per_epoch and steps_done(checkpoint) % per_epoch in (2, 3, 4)):
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    killed_at = steps_done(checkpoint)
    assert per_epoch < killed_at < 5 * per_epoch
    assert killed_at % per_epoch, "in the middle of an epoch"
    assert alu(place, *words, "--out", tmp_path / "cut").code == 0
    for name in ("best.safetensors", "checkpoint.safetensors", "model.safetensors"):
        whole, cut = (load_file(tmp_path / run / name) for run in ("whole", "cut"))
        assert whole.keys() == cut.keys()
        assert all(torch.equal(whole[key], cut[key]) for key in whole), name


def rows(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "curve.jsonl").read_text().splitlines()]


def test_two_processes_train_the_vae_like_one(place: Path, tmp_path: Path) -> None:
    words = ("train", "vae", "--data", "pics", *QUICK, "--set", "augment=crop-flip")
    assert alu(place, *words, "--out", tmp_path / "one").code == 0
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "alu"]
    two = subprocess.run(
        [*torchrun, *words, "--out", tmp_path / "two"], cwd=place, env=ENVIRONMENT, capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip
    assert two.returncode == 0, two.stderr
    assert two.stdout.count("Saved as") == 1, "only the first process speaks"
    single, double = rows(tmp_path / "one"), rows(tmp_path / "two")
    assert [row["step"] for row in single] == [row["step"] for row in double]
    for one, other in zip(single, double, strict=True):
        assert other == pytest.approx(one, rel=1e-3), one
    assert single[-2]["loss"] < 0.7 * single[0]["loss"]


def test_a_batch_that_two_processes_cannot_share(place: Path, tmp_path: Path) -> None:
    words = ("train", "vae", "--data", "pics", "--set", "batch_size=13", "--out", tmp_path / "run")
    done = alu(place, *words, WORLD_SIZE="2")
    assert (
        "A batch of 13 images cannot be shared equally among 2 processes. Use --set batch_size=12." in done.sentence()
    )
    assert not list(tmp_path.iterdir())
