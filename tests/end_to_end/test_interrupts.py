"""Ctrl-C, SIGTERM and a second process with the same --out: real processes, real signals."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from alu.storage import locked
from alu.training.checkpoint import progress_of
from tests.end_to_end.command import ENVIRONMENT, Done, alu, fresh, snapshot, start
from tests.end_to_end.own_classifier import write_classifier, write_pictures

SLOW = """
import pathlib, time
from own import Stripes, build as build_quick

class Slow(Stripes):
    def forward(self, images):
        pathlib.Path("asked").touch()
        time.sleep(0.15)
        return super().forward(images)

def build():
    quick = build_quick()
    model = Slow(quick.gray.in_channels, quick.last.out_features)
    model.load_state_dict(quick.state_dict())
    return model

def build_sleeping():
    pathlib.Path("asked").touch()
    time.sleep(60)
"""
OWN = ("--classifier", "own:build", "--data", "pics", "--false-alarm", 0.05)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return furnished(tmp_path_factory.mktemp("interrupts"))


def furnished(folder: Path) -> Path:
    """The folder with a classifier, a slow one of the same weights, pictures, and a defence in it."""
    write_classifier(folder)
    (folder / "slow.py").write_text(SLOW)
    write_pictures(folder / "pics")
    done = alu(folder, "fit", *OWN, "--out", "defense", "--purifier", "pca", "--force")
    assert done.code == 0, done
    return folder


@pytest.fixture
def mine(place: Path, tmp_path: Path) -> Path:
    """The same in a folder of this test's own."""
    shutil.copytree(place, tmp_path / "mine")
    return tmp_path / "mine"


def listening() -> None:
    # A test run in the background would hand down that SIGINT is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def interrupted(folder: Path, *words: object, when: Callable[[], bool], number: signal.Signals = signal.SIGINT) -> Done:
    """The command, sent a signal as soon as `when` says so."""
    process = start(folder, *words, preexec_fn=listening)
    deadline = time.monotonic() + 90
    while not when():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    return Done(process.returncode, out, err)


def equal(one: Path, other: Path) -> bool:
    ours, theirs = load_file(one), load_file(other)
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_train_saves_a_checkpoint_and_goes_on(mine: Path, number: signal.Signals) -> None:
    words = ("train", "classifier", "--data", "pics", "--set", "epochs=60", "--set", "batch_size=14")
    assert alu(mine, *words, "--out", "whole").code == 0
    curve = mine / "cut" / "curve.jsonl"
    done = interrupted(mine, *words, "--out", "cut", when=curve.exists, number=number)
    found = re.fullmatch(
        r"alu: Interrupted\. A checkpoint after step (\d+) is in cut: run the same command again to resume\.\n",
        done.err,
    )
    assert found, done
    assert done.code == 130
    assert 7 <= int(found[1]) < 420
    again = alu(mine, *words, "--out", "cut")
    assert (again.code, again.err) == (0, ""), again
    assert all(equal(mine / "whole" / name, mine / "cut" / name) for name in ("best.safetensors", "model.safetensors"))
    assert not list(mine.glob(".*"))


def test_fit_keeps_its_training_beside_out(mine: Path) -> None:
    words = ("fit", *OWN, "--epochs", 25, "--steps", 2, "--force")
    assert alu(mine, *words, "--out", "whole").code == 0
    assert not (mine / "whole.work").exists()
    work = mine / "cut.work"
    done = interrupted(mine, *words, "--out", "cut", when=(work / "curve.jsonl").exists)
    found = re.fullmatch(
        r"alu: Interrupted\. cut was not written\. The VAE's training up to step \d+ is in cut\.work: run the same "
        r"command again to resume\.\n",
        done.err,
    )
    assert found, done
    assert (done.code, (mine / "cut").exists()) == (130, False)
    other = alu(mine, "fit", *OWN, "--epochs", 26, "--out", "cut")
    assert "cut.work/checkpoint.safetensors belongs to another run: epochs was 25 and is now 26." in other.sentence()
    assert "delete cut.work to start again" in other.sentence()
    again = alu(mine, *words, "--out", "cut")
    assert again.code == 0, again
    assert equal(mine / "whole" / "weights.safetensors", mine / "cut" / "weights.safetensors")
    assert not work.exists()
    assert not list(mine.glob(".*"))


def test_fit_without_a_training_leaves_nothing(mine: Path) -> None:
    before = sorted(snapshot(mine))
    words = ("fit", *OWN, "--classifier", "slow:build_sleeping", "--out", "deep/new", "--purifier", "vae")
    done = interrupted(mine, *words, when=(mine / "asked").exists, number=signal.SIGTERM)
    assert (done.code, done.err) == (
        130, "alu: Interrupted. deep/new was not written. No partial files were left.\n",
    )  # fmt: skip
    assert sorted(snapshot(mine)) == sorted([*before, "asked"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("format", ["jsonl", "csv"])
def test_predict_keeps_its_answers_and_goes_on(mine: Path, format: str, number: signal.Signals) -> None:
    (mine / "pics" / "torn\nname.png").write_text("no picture")
    words = ("predict", "defense", "pics", "--classifier", "slow:build", "--format", format, "--batch-size", 20)
    quick = ("predict", "defense", "pics", "--trust", "--format", format, "--batch-size", 20)
    whole = alu(mine, *quick, "--out", f"whole.{format}")
    assert whole.code == 3
    out, partial, notes = (mine / f"cut.{format}{ending}" for ending in ("", ".partial", ".partial.json"))

    def some_are_there() -> bool:
        return partial.exists() and partial.stat().st_size > 0

    done = interrupted(mine, *words, "--out", out.name, when=some_are_there, number=number)
    found = re.fullmatch(
        rf"alu: Interrupted\. The answers for (\d+) of 141 files are in cut\.{format}\.partial: run the same command "
        r"again to resume\.\n",
        done.err,
    )
    assert found, done
    kept = int(found[1])
    assert (done.code, done.out, kept % 20, out.exists()) == (130, "", 0, False)
    assert 20 <= kept < 141
    text = (mine / f"whole.{format}").read_text()
    assert text.startswith(partial.read_text()), "complete rows only"
    refused = alu(mine, "predict", "defense", "pics", "--trust", "--format", format, "--out", out.name)
    assert "of an interrupted call with another classifier. Repeat that call to resume" in refused.sentence()
    with partial.open("a") as file:  # as a killed process may leave it
        file.write('{"file": "pics/cut sho')
    again = alu(mine, *words, "--out", out.name)
    assert again.code == 3
    assert f"alu: {kept} of 141 answers were there already.\n" in again.err
    assert again.err.endswith(whole.err), "errors and the summary are of all files"
    assert out.read_text() == text
    assert not partial.exists()
    assert not notes.exists()
    assert not list(mine.glob(".*"))


def test_predict_refuses_answers_that_belong_to_something_else(mine: Path) -> None:
    (mine / "a.csv.partial").write_text("years of work")
    words = ("predict", "defense", "pics", "--trust", "--format", "csv")
    done = alu(mine, *words, "--out", "a.csv")
    assert "a.csv.partial.json does not say what it belongs to. Delete it, or choose another --out." in done.sentence()
    assert (mine / "a.csv.partial").read_text() == "years of work"


def test_predict_that_is_interrupted_early_leaves_nothing(mine: Path) -> None:
    words = ("predict", "defense", "pics", "--classifier", "slow:build_sleeping", "--format", "csv", "--out", "a/b.csv")
    done = interrupted(mine, *words, when=(mine / "asked").exists)
    assert (done.code, done.err) == (130, "alu: Interrupted. No partial files were left.\n")
    assert not (mine / "a").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_attack_leaves_nothing(mine: Path, number: signal.Signals) -> None:
    words = ("attack", "slow:build", "--data", "pics", "--out", "new/a.npz", "--set", "steps=500")
    done = interrupted(mine, *words, when=(mine / "asked").exists, number=number)
    assert (done.code, done.err) == (130, "alu: Interrupted. No partial files were left.\n")
    assert not (mine / "new").exists()


def test_evaluate_goes_on_after_sigterm(mine: Path) -> None:
    words = ("evaluate", "slow:build", "--data", "pics", "--out", "r.json", "--budget", "quick", "--n", 6)
    block = mine / "r.json.work" / "block-0000.json"
    done = interrupted(mine, *words, when=block.exists, number=signal.SIGTERM)
    assert (done.code, done.err) == (
        130, "alu: Interrupted. What was done is in r.json.work: run the same command again to resume.\n",
    )  # fmt: skip


COMMANDS = {
    "fit": (("fit", *OWN, "--purifier", "blur"), "new/out"),
    "train": (("train", "vae", "--data", "pics"), "new/out"),
    "predict": (("predict", "defense", "pics", "--trust", "--format", "csv"), "new/out.csv"),
    "attack": (("attack", "own:build", "--data", "pics"), "new/out.npz"),
    "evaluate": (("evaluate", "own:build", "--data", "pics", "--budget", "quick"), "new/out.json"),
    "reproduce": (("reproduce", "features", "--quick"), "new/out"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_second_process_with_the_same_out_is_refused_at_once(mine: Path, name: str) -> None:
    words, out = COMMANDS[name]
    before = snapshot(mine)
    with locked(mine / out):
        done = alu(mine, *words, "--out", out)
        assert sorted(path.name for path in (mine / "new").iterdir()) == [f".{Path(out).name}.lock"]
    expected = rf"alu: {out} is being written by another alu \(process {os.getpid()}, running since [\d:]+\)\. Wait"
    assert re.match(expected, done.sentence()), done
    assert done.code == 1
    assert snapshot(mine) == before


def test_two_fits_at_once(mine: Path) -> None:
    words = ("fit", *OWN, "--classifier", "slow:build_sleeping", "--out", "new", "--purifier", "blur")
    first = start(mine, *words, preexec_fn=listening)
    while not (mine / "asked").exists():
        time.sleep(0.01)
    second = fresh(mine, *words)
    assert f"new is being written by another alu (process {first.pid}, running since" in second.sentence()
    first.send_signal(signal.SIGKILL)
    first.communicate()
    third = alu(mine, "fit", *OWN, "--out", "new", "--purifier", "blur", "--force")
    assert third.code == 0, "a killed process holds nothing"
    assert not list(mine.glob(".*"))


PRINTING = {
    **{kind: ("predict", "defense", "pics", "--trust", "--format", kind) for kind in ("table", "jsonl", "csv")},
    "a line": ("attack", "own:build", "--data", "pics", "--n", "2", "--set", "steps=1"),  # Python would flush it last
}


@pytest.mark.parametrize("kind", PRINTING)
def test_a_full_standard_output_is_one_sentence(place: Path, tmp_path: Path, kind: str) -> None:
    more = ["--out", tmp_path / "a.npz"] if kind == "a line" else []
    buffered = {name: value for name, value in ENVIRONMENT.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        command = [Path(sys.executable).with_name("alu"), *PRINTING[kind], *more]
        done = subprocess.run(
            command, cwd=place, env=buffered, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (
        1, "alu: Cannot write the output: the disk is full. Free some space and run the command again.\n",
    )  # fmt: skip


def test_two_processes_of_torchrun_stop_after_the_same_step(mine: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "alu"]
    words = ["train", "vae", "--data", "pics", "--out", "run", "--set", "epochs=3000", "--every", "1000"]
    pipe = subprocess.PIPE
    process = subprocess.Popen([*torchrun, *words], cwd=mine, env=ENVIRONMENT, stdout=pipe, stderr=pipe, text=True)
    deadline = time.monotonic() + 90
    while not (mine / "run" / "curve.jsonl").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)  # torchrun passes it on
    _, err = process.communicate(timeout=60)
    assert re.findall("alu: .*", err) == [
        f"alu: Interrupted. A checkpoint after step {progress_of(mine / 'run' / 'checkpoint.safetensors').step} is in "
        "run: run the same command again to resume."
    ], "one of them speaks"
