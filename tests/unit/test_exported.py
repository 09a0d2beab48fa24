"""An exported defence answers as the defence does, without torch; damage and wrong input are sentences."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import alu
from alu import Defense, data, engine, exported
from alu.errors import AluError, InputError, MissingExtraError, StorageError, UsageError
from alu.exported import Exported
from alu.storage import checksum, sha256
from tests.contracts.parts import LinearClassifier, images_like

BLOCKED = """
import json, sys
sys.modules["torch"] = None
import numpy as np
from alu import exported
made = exported.load(sys.argv[1], threads=1)
images = np.load(sys.argv[2])
before = made.decide(images, 3).to_dict()
after = made.calibrate(np.load(sys.argv[3])).decide(images).to_dict()
try:
    made.decide(images.astype(np.uint8))
except exported.AluError as error:
    print(json.dumps([before, after, str(error)]))
"""
"""A process in which `import torch` fails."""


@pytest.fixture(scope="module")
def defense(clean: Tensor) -> Defense:
    purifier = alu.purifiers.LatentVAE("cifar10-vae", steps=5)
    made = Defense(alu.models.load("cifar10-standard"), purifier, alu.detectors.LogitShift(), "graded", suspicious=0.05)
    made.classes = data.sample("test").classes
    return made.calibrate(clean)


@pytest.fixture(scope="module")
def folder(defense: Defense, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "export"
    alu.export(defense, path)
    return path


@pytest.fixture(scope="module")
def pictures(defense: Defense) -> Tensor:
    """The 500 bundled test images, 60 of them attacked and 40 noisy."""
    test = data.sample("test")
    images = test.images.clone()
    images[:60] = alu.attacks.PGD(eps=8 / 255, steps=5)(defense.classifier, images[:60], test.labels[:60])
    noise = torch.randn(images[60:100].shape, generator=torch.Generator().manual_seed(0))
    images[60:100] = (images[60:100] + 0.15 * noise).clamp(0, 1)
    return images


def test_the_same_answers_as_torch_on_500_pictures(
    defense: Defense, folder: Path, pictures: Tensor, clean: Tensor
) -> None:
    made = exported.load(folder, threads=1)
    truth = defense.decide(pictures)
    for calibrated_by in ("torch", "onnxruntime"):
        found = made.decide(pictures.numpy())
        assert made.engine.startswith(calibrated_by)
        for name in ("label", "accepted", "flagged", "state"):
            # Adam's first step is a sign step: rounding can turn it, and with it, rarely, an answer.
            assert (getattr(found, name) != getattr(truth, name).numpy()).sum() <= 2, name
        assert set(found.state.tolist()) == {0, 1, 2, 3}
        np.testing.assert_allclose(found.pre_logits, truth.pre_logits.numpy(), atol=1e-4)
        apart = np.abs(found.post_logits - truth.post_logits.numpy()).max(1)
        assert (apart <= 1e-3).mean() >= 0.97
        assert apart.max() <= 0.1
        ranks = np.abs(found.p_value - truth.p_value.numpy()) * (len(clean) + 1)
        assert (ranks <= 1 + 1e-6).mean() >= 0.99
        assert ranks.max() <= 5
        made.calibrate(clean.numpy())


def test_an_answer_does_not_depend_on_its_batch(folder: Path, pictures: Tensor) -> None:
    made, some = exported.load(folder, threads=1), pictures[40:80].numpy()
    together = made.decide(some)
    for size in (1, 7):
        apart = made.decide(some[::-1].copy(), size)[::-1]
        np.testing.assert_allclose(apart.post_logits, together.post_logits, atol=1e-5)
        for name in ("label", "flagged", "state", "p_value"):
            assert getattr(apart, name).tolist() == getattr(together, name).tolist(), name
    more = exported.load(folder, threads=2).decide(some)
    assert more.label.tolist() == together.label.tolist()


def test_a_decision_is_like_that_of_torch(defense: Defense, folder: Path, pictures: Tensor) -> None:
    assert [item.name for item in fields(exported.Decision)] == [item.name for item in fields(alu.Decision)]
    made = exported.load(folder)
    found, truth = made.decide(pictures[58:64].numpy()), defense.decide(pictures[58:64])
    for item in fields(alu.Decision):
        assert getattr(found, item.name).dtype == getattr(truth, item.name).numpy().dtype, item.name
        assert getattr(found, item.name).shape == getattr(truth, item.name).shape, item.name
    assert len(found) == 6
    ours, theirs = found[1].to_dict(), truth[1].to_dict()
    assert {name: type(value) for name, value in ours.items()} == {name: type(value) for name, value in theirs.items()}
    assert ours["state"] == theirs["state"]
    assert json.loads(json.dumps(ours)) == ours
    assert np.asarray(found[:2].to_dict(purified=True)["purified"]).shape == (2, 3, 32, 32)
    assert (made.shape, made.classes) == (defense.shape, defense.classes)


def test_without_torch(folder: Path, pictures: Tensor, clean: Tensor, tmp_path: Path) -> None:
    some = pictures[55:65].numpy()
    np.save(tmp_path / "some.npy", some)
    np.save(tmp_path / "clean.npy", clean[:200].numpy())
    words = [sys.executable, "-W", "error", "-c", BLOCKED, folder, tmp_path / "some.npy", tmp_path / "clean.npy"]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    before, after, sentence = json.loads(done.stdout)
    made = exported.load(folder, threads=1)
    assert before == made.decide(some, 3).to_dict()
    assert after == made.calibrate(clean[:200].numpy()).decide(some).to_dict()
    assert before["p_value"] != after["p_value"], "other clean images"
    assert sentence.startswith("Exported needs floating-point images in [0, 1]; these are uint8.")


def test_a_calibration_is_kept(folder: Path, pictures: Tensor, clean: Tensor, tmp_path: Path) -> None:
    some = pictures[50:70].numpy()
    copy = tmp_path / "copy"
    made = exported.load(folder).calibrate(clean[100:].numpy(), batch_size=64)
    made.save(copy)
    again = exported.load(copy)
    assert again.engine == engine.engine()
    assert again.decide(some).to_dict() == made.decide(some).to_dict()
    again.calibrate(clean[:199].numpy()).save(copy)
    assert len(exported.load(copy).calibration.scores) == 199  # type: ignore[union-attr]
    with pytest.raises(StorageError, match="was not written by alu"):
        made.save(tmp_path)
    with pytest.raises(InputError, match="LogitShift needs at least 199 clean images .* it was given 9"):
        made.calibrate(clean[:9].numpy())


def test_without_a_detector_there_is_nothing_to_calibrate(tmp_path: Path) -> None:
    shape = (1, 6, 5)
    images = images_like(20, shape)
    bare = Defense(LinearClassifier(shape, 3), alu.purifiers.Median(3), rule="purified")
    made = alu.export(bare, tmp_path / "export", images)
    found = made.decide(images.numpy()).to_dict()
    assert found["p_value"] == found["score"] == [None] * 20
    assert not any(found["flagged"])
    with pytest.raises(UsageError, match="no detector to calibrate"):
        made.calibrate(images.numpy())


BAD: dict[str, tuple[object, str]] = {
    "a list": ([[0.5]], "Exported needs an array of images; it was given list"),
    "a tensor": (torch.zeros(1, 3, 32, 32), "it was given Tensor"),
    "bytes": (np.zeros((1, 3, 32, 32), dtype=np.uint8), "Divide by 255 first"),
    "one picture": (np.zeros((3, 32, 32), dtype=np.float32), r"needs images \[N, C, H, W\]"),
    "too bright": (np.full((1, 3, 32, 32), 2.5), r"needs images in \[0, 1\]"),
    "not a number": (np.full((1, 3, 32, 32), np.nan), "NaN or infinite pixels"),
    "another size": (np.zeros((1, 3, 16, 16)), "calibrated on images of 3 x 32 x 32"),
    "none": (np.zeros((0, 3, 32, 32)), "was given no image"),
}


@pytest.mark.parametrize("name", BAD)
def test_wrong_images_are_one_sentence(folder: Path, name: str) -> None:
    images, sentence = BAD[name]
    with pytest.raises(InputError, match=sentence):
        exported.load(folder).decide(images)  # type: ignore[arg-type]


def test_wrong_numbers_are_one_sentence(folder: Path) -> None:
    with pytest.raises(UsageError, match="threads is a number of threads, at least 1"):
        exported.load(folder, threads=0)
    with pytest.raises(UsageError, match="batch_size is at least 1; it is 0"):
        exported.load(folder).decide(np.zeros((1, 3, 32, 32)), batch_size=0)


def rewritten(path: Path, **changes: object) -> None:
    """Change an entry of a JSON file, with a checksum that fits."""
    plain = {**json.loads(path.read_text()), **changes}
    plain.pop("checksum")
    path.write_text(json.dumps({**plain, "checksum": checksum(plain)}))


def spoil_graph(folder: Path) -> None:
    """A graph that is no ONNX, with a checksum that fits."""
    (folder / "step.onnx").write_bytes(b"no graph")
    graphs = json.loads((folder / "exported.json").read_text())["graphs"] | {"step": sha256(folder / "step.onnx")}
    rewritten(folder / "exported.json", graphs=graphs)
    rewritten(folder / "calibration.json", graphs=checksum(graphs))


DAMAGE = {
    "gone": (shutil.rmtree, "is not an exported defence: it has no exported.json"),
    "a saved defence": (
        lambda folder: (folder / "exported.json").rename(folder / "defense.json"),
        "`alu export` writes one from a saved defence",
    ),
    "another format": (lambda folder: rewritten(folder / "exported.json", format=9), "not an export in the format"),
    "no calibration": (lambda folder: (folder / "calibration.json").unlink(), "Cannot read .*calibration.json"),
    "no graph": (lambda folder: (folder / "step.onnx").unlink(), "Cannot read .*step.onnx: No such file"),
    "a changed graph": (
        lambda folder: (folder / "step.onnx").write_bytes(b"x" + (folder / "step.onnx").read_bytes()),
        "step.onnx was changed after it was written",
    ),
    "a changed setting": (
        lambda folder: (folder / "exported.json").write_text(
            (folder / "exported.json").read_text().replace('"graded"', '"alu"')
        ),
        "exported.json was changed after it was written",
    ),
    "other graphs": (lambda folder: rewritten(folder / "calibration.json", graphs="x"), "belongs to other graphs"),
    "a missing entry": (lambda folder: rewritten(folder / "calibration.json", detector={}), "is damaged: KeyError"),
    "no ONNX": (spoil_graph, "onnxruntime cannot load .*step.onnx"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_one_sentence(folder: Path, name: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    damage, sentence = DAMAGE[name]
    damage(copy)
    with pytest.raises(AluError, match=sentence) as error:
        exported.load(copy)
    assert "\n" not in str(error.value)


def test_a_defence_in_torch_is_not_read_from_an_export(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"is an exported defence.*alu.exported.load reads it"):
        alu.load(folder)


def test_a_missing_engine_is_one_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"alu.exported needs the package onnxruntime.*\[exported\]"):
        Exported(folder)


def test_what_onnxruntime_says_is_one_sentence(folder: Path) -> None:
    graph = exported.load(folder)._graphs["encode"]
    with pytest.raises(InputError, match="onnxruntime failed in encode: "):
        graph.run({"images": np.zeros((1, 4, 32, 32), dtype=np.float32)})


def test_logits_that_are_no_numbers_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = exported.load(folder)
    run = made._graphs["classify"].run
    monkeypatch.setattr(
        made._graphs["classify"], "run", lambda values: run(values) | {"pre_logits": np.array([np.nan])}
    )
    with pytest.raises(InputError, match="NaN or infinite logits"):
        made.decide(np.zeros((1, 3, 32, 32)))
