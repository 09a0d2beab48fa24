"""Bad input gives one sentence and a non-zero exit, never a traceback, and changes nothing on disk."""

from __future__ import annotations

import os
import pickle
import resource
import shutil
import struct
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from alu import models
from alu.errors import UntrustedError
from alu.training.recipes import seeded
from tests.end_to_end.command import alu, disk_of, fresh, snapshot
from tests.end_to_end.own_classifier import stripes, write_classifier, write_pictures


class Evil:
    """A pickle of this runs a command when it is opened."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch executed",)


def bomb() -> bytes:
    """A PNG file of a hundred bytes that promises 60,000 x 60,000 pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def write_npz(path: Path, change: object = None, scale: float = 1.0, classes: int = 2) -> None:
    labels = np.arange(140) % classes
    images = np.stack([stripes(int(label), (16, 16), 3, at) for at, label in enumerate(labels)]) / 255 * scale
    if change is not None:
        images[3, 4, 5, 1] = change
    np.savez(path, images=images.astype(np.float32), labels=labels)


def write_archives(place: Path) -> None:
    """An archive cut in the middle, and a CIFAR-10 that is all zeros."""
    (place / "noise").write_bytes(np.random.default_rng(0).bytes(200_000))
    with tarfile.open(place / "whole.tar.gz", "w:gz") as archive:
        archive.add(place / "noise", "cifar-10-batches-bin/test_batch.bin")
    (place / "cut.tar.gz").write_bytes((place / "whole.tar.gz").read_bytes()[:100_000])
    (place / "zeros").mkdir()
    for name in (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"):
        with (place / "zeros" / name).open("wb") as file:
            file.truncate(10_000 * 3073)  # a hole: it takes no space


def write_vaes(place: Path) -> None:
    """A VAE for one channel, a pickle that calls itself safetensors, with a card and without one."""
    vae = seeded(lambda: models.vae(channels=1, latent=4, width=8), 0)
    card = models.Card("gray", "vae", vae.architecture, "nothing", "none", "this test", "MIT", "")  # type: ignore[arg-type]
    models.save(vae, card, place)
    for name in ("evil", "bare"):
        (place / f"{name}.safetensors").write_bytes(pickle.dumps(Evil()))
    shutil.copy(place / "gray.json", place / "evil.json")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One good folder of pictures and one of everything that is bad."""
    folder = tmp_path_factory.mktemp("bad")
    write_classifier(folder)
    write_pictures(folder / "pics")
    for name, content in (("text", b"this is a text"), ("cut", b""), ("bomb", bomb())):
        shutil.copytree(folder / "pics", folder / name)
        good = (folder / name / "lying" / "001.png").read_bytes()
        (folder / name / "lying" / "001.png").write_bytes(content or good[: len(good) // 2])
    write_pictures(folder / "gray", channels=1)
    write_pictures(folder / "three", classes=3, each=47)
    write_pictures(folder / "few", each=20)
    write_pictures(folder / "one", classes=1)
    (folder / "empty").mkdir()
    shutil.copytree(folder / "pics", folder / "hollow")
    (folder / "hollow" / "nothing").mkdir()
    shutil.copytree(folder / "pics", folder / "sizes")
    Image.fromarray(stripes(0, (18, 16), 3, 0)).save(folder / "sizes" / "lying" / "big.png")
    (folder / "theirs").mkdir()
    (folder / "theirs" / "thesis.txt").write_text("years of work")
    (folder / "theirs" / "result.json").write_text('{"their": "measurements"}')
    (folder / "script.py").write_text("import sys\nsys.exit('usage: script')\n")
    (folder / "torn.py").write_text("def build(:\n")
    write_npz(folder / "nan.npz", float("nan"))
    write_npz(folder / "inf.npz", float("inf"))
    write_npz(folder / "bytes.npz", scale=255)
    write_npz(folder / "single.npz", classes=1)
    (folder / "cut.npz").write_bytes((folder / "single.npz").read_bytes()[:5000])
    write_archives(folder)
    write_vaes(folder)
    return folder


GOOD = {
    "--classifier": "own:build", "--data": "pics", "--out": "new/defense", "--purifier": "blur",
    "--false-alarm": "0.05",
}  # fmt: skip


def fit(**changes: str) -> tuple[str, ...]:
    """The words of a good `alu fit`, with some changed."""
    options = GOOD | {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
    return ("fit", *(word for pair in options.items() for word in pair))


CASES = {
    "missing archive": (("data", "cifar100", "--root", "nowhere"), "nowhere, which does not exist"),
    "truncated archive": (("data", "cifar10", "--root", "cut.tar.gz"), "damaged, truncated or not an archive"),
    "wrong checksum": (("data", "cifar10", "--root", "zeros"), "not the official CIFAR-10"),
    "a width above 1": (fit(suspicious="2"), "at least 0 and below 1, such as 0.02; it is 2.0"),
    "text named png": (fit(data="text"), "text/lying/001.png cannot be read as a picture"),
    "truncated picture": (fit(data="cut", purifier="pca"), "cut/lying/001.png cannot be read as a picture"),
    "decompression bomb": (fit(data="bomb"), "far more than any image here needs"),
    "empty folder": (fit(data="empty"), "empty holds no folder"),
    "empty class": (fit(data="hollow"), "hollow/nothing holds no picture"),
    "missing folder": (fit(data="there/not"), "there/not does not exist"),
    "mistyped data set": (fit(data="cifar11"), "Did you mean cifar10"),
    "sizes differ": (fit(data="sizes"), "--size"),
    "NaN": (fit(data="nan.npz"), "1 pixels are NaN or infinite"),
    "infinity": (fit(data="inf.npz"), "1 pixels are NaN or infinite"),
    "0..255": (fit(data="bytes.npz"), "Divide 0..255 values by 255"),
    "truncated npz": (fit(data="cut.npz"), "cut.npz is damaged or truncated"),
    "channels of the classifier": (fit(data="gray"), "must take images [N, 1, 16, 16]"),
    "channels of the VAE": (fit(purifier="gray.safetensors"), "reads images of 1 channels; these have 3"),
    "one class": (fit(data="one"), "one holds one folder, lying; expected one sub-folder per class, at least two"),
    "one class in npz": (fit(data="single.npz"), "single.npz has one class only"),
    "too few images": (fit(data="few"), "about 127 pictures in all, or allow more false alarms: --false-alarm 0.143"),
    "classes of the classifier": (fit(data="three"), "2 classes, but three has 3: lying, standing, tiles."),
    "pickle as VAE": (fit(purifier="evil.safetensors"), "not a complete safetensors file"),
    "pickle as VAE without card": (fit(purifier="bare.safetensors"), "no card bare.json"),
    "missing VAE": (fit(purifier="no.safetensors"), "no.safetensors does not exist"),
    "out not ours": (fit(out="theirs"), "theirs is already there and was not written by alu"),
    "out is a file": (fit(out="own.py"), "own.py is already there"),
    "out below a file": (fit(out="own.py/defense"), "Choose another --out"),
    "out in the data": (fit(out="pics/defense"), "lies in --data pics"),
    "picture over a picture": (("data", "pics", "--show", "pics/lying/000.png"), "is already there"),
    "no training images": (fit(data="cifar10-sample", purifier="pca"), "cifar10-sample has no train images, only"),
    "demo over a file": (("demo", "--out", "own.py"), "own.py is not a folder you can write to"),
    "demo over a result": (("demo", "--out", "theirs"), "theirs/result.json is already there and is not the numbers"),
    "answers over notes": (
        ("predict", "d", "pics", "--format", "csv", "--out", "theirs/thesis.txt"),
        "theirs/thesis.txt is already there and is not a table of alu predict",
    ),
    "attacked images in the data": (
        ("attack", "own:build", "--data", "pics", "--out", "pics/attacked"),
        "--out pics/attacked lies in --data pics, where it would be taken for a class",
    ),
    "no archive": (("data", "cifar100", "--root", "own.py"), "(file could not be opened successfully): it is damaged"),
    "module as a path": (fit(classifier="own.py:build"), "written with dots, not as a path: own:build"),
    "checkpoint in out": (fit(checkpoint="new/defense/kept"), "lies in --out"),
    "unknown device": (fit(device="cuba"), "no device 'cuba'"),
    "unknown purifier": (fit(purifier="blurr"), "Did you mean blur"),
    "unknown rule": (fit(rule="abstian"), "Did you mean abstain?"),
    "unknown reference": (fit(reference="inputs", purifier="vae"), "Did you mean input?"),
    "reference without VAE": (fit(reference="reconstruction"), "needs a VAE"),
    "no epochs": (fit(purifier="vae", epochs="0"), "--epochs of at least 1"),
    "negative steps": (fit(purifier="vae", steps="-1"), "--steps of at least 0"),
    "false alarms above 1": (fit(false_alarm="5"), "share of clean images"),
    "bad size": (fit(size="big"), "--size big"),
    "unknown classifier": (fit(classifier="own"), "named module:function"),
    "no such module": (fit(classifier="owm:build"), "Cannot import owm"),
    "module with a mistake": (fit(classifier="torn:build"), "Cannot import torn"),
    "module that exits": (fit(classifier="script:build"), "Cannot import script"),
    "no such factory": (fit(classifier="own:make"), "own has no make"),
    "factory that raises": (fit(classifier="own:build_broken"), "RuntimeError: the weights are elsewhere"),
    "factory of no classifier": (fit(classifier="own:build_number"), "returned int"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_one_sentence_and_nothing_changed(place: Path, case: str) -> None:
    words, expected = CASES[case]
    before = snapshot(place)
    done = alu(place, *words, ALU_CACHE=str(place / "cache"))
    assert expected in done.sentence()
    assert done.out == ""
    assert snapshot(place) == before


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("predikt",), "No such command 'predikt'. Did you mean 'predict'? See: alu --help"),
        (("predict", "d"), "Missing argument 'pictures'. See: alu predict --help"),
        (("data", "--splits", "all"), "No such option: --splits"),
        (("data", "pics", "--show"), "Option '--show' requires an argument"),
        (("attack", "demo", "--out", "new.npz", "--n", "0"), "Invalid value for '--n'"),
    ],
)
def test_a_call_that_typer_refuses_is_one_sentence_too(place: Path, words: tuple[str, ...], expected: str) -> None:
    done = alu(place, *words)
    assert expected in done.sentence()
    assert (done.code, done.out) == (2, "")


def test_alu_alone_shows_its_help(place: Path) -> None:
    done = alu(place)
    assert done.code == 2
    assert "Usage: alu [OPTIONS] COMMAND" in done.err


def test_probabilities_are_warned_about_in_one_line(place: Path, tmp_path: Path) -> None:
    done = alu(place, *fit(classifier="own:build_probabilities", out=str(tmp_path / "defense")))
    assert done.code == 0
    assert done.err.startswith("alu: warning: The classifier Sequential seems to return probabilities")
    assert (done.err.count("probabilities"), done.unwarned) == (1, "")


def test_a_random_classifier_is_warned_about(place: Path, tmp_path: Path) -> None:
    # Chance may also cost it more than ten points, which is not what this test is about.
    done = alu(place, *fit(classifier="own:build_random", out=str(tmp_path / "defense")), "--force")
    assert done.code == 0
    assert done.err.startswith("alu: warning: The classifier function gives different logits for the same images")


def test_wrong_class_order_is_warned_about(place: Path, tmp_path: Path) -> None:
    write_classifier(tmp_path)
    for name, source in (("0", "standing"), ("1", "lying")):
        shutil.copytree(place / "pics" / source, tmp_path / "pics" / name)
    # The check draws at most 100 of the calibration images and says nothing about fewer than 50.
    for label in (0, 1):
        write = tmp_path / "pics" / str(label)
        for number in range(100, 280):
            Image.fromarray(stripes(1 - label, (16, 16), 3, number)).save(write / f"{number}.png")
    done = alu(tmp_path, *fit())
    assert done.code == 0
    assert "is right on only 0 of" in done.err


def test_a_pickle_with_code_is_not_executed(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"weight": torch.zeros(1), "evil": Evil()}, "evil.pt")
    Path("evil.pth").write_bytes(pickle.dumps(Evil()))
    for name in ("evil.pt", "evil.pth"):
        with pytest.raises(UntrustedError, match="not opened"):
            models.load_weights(torch.nn.Linear(1, 1), name)
    assert not Path("executed").exists()
    assert pickle.loads(Path("evil.pth").read_bytes()) == 0  # it is a live one: so it goes where it is opened
    assert Path("executed").exists()
    assert not (place / "executed").exists()


def small_files_only() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))


@pytest.mark.parametrize("purifier", ["pca", "vae"])
def test_a_file_that_may_not_grow(place: Path, tmp_path: Path, purifier: str) -> None:
    before = snapshot(place)
    words = fit(out=str(tmp_path / "deep" / "defense"), purifier=purifier)
    more = ("--epochs", 1, "--checkpoint", tmp_path / "kept") if purifier == "vae" else ()
    done = fresh(place, *words, *more, preexec_fn=small_files_only)
    written = "kept/best.safetensors" if purifier == "vae" else "deep/defense/weights.safetensors"
    assert done.unwarned == f"alu: Cannot write {tmp_path / written}: File too large.\n"
    left = {"kept", "kept/run.json"} if purifier == "vae" else set()  # what a training kept is not taken away again
    assert set(snapshot(tmp_path)) - {"kept/curve.jsonl"} == left
    assert snapshot(place) == before


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    with disk_of("64k", tmp_path) as disk:
        yield disk


def test_no_disk_space(place: Path, tiny_disk: Path) -> None:
    done = alu(place, *fit(out=str(tiny_disk / "a" / "defense"), purifier="pca"))
    (sentence,) = done.unwarned.splitlines()
    assert "the disk is full. Free some space" in sentence
    assert str(tiny_disk / "a" / "defense") in sentence
    assert not list(tiny_disk.iterdir())
