"""The user's own arrays, in every accepted shape, and what is refused."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import alu.data
from alu.errors import DataError, InputError, StorageError, UntrustedError, UsageError

PIXELS = np.random.default_rng(0).integers(0, 256, (40, 3, 6, 8), dtype=np.uint8)
LABELS = np.arange(40) % 4


def save(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def test_channels_first_last_and_gray(tmp_path: Path) -> None:
    first = alu.data.npz(save(tmp_path / "a.npz", images=PIXELS, labels=LABELS))
    last = alu.data.npz(save(tmp_path / "b.npz", x=PIXELS.transpose(0, 2, 3, 1), y=LABELS.astype(np.uint8)))
    gray = alu.data.npz(save(tmp_path / "c.npz", images=PIXELS[:, 0], labels=LABELS))
    assert torch.equal(first.pixels, torch.from_numpy(PIXELS))
    assert torch.equal(last.pixels, first.pixels)
    assert torch.equal(gray.pixels, first.pixels[:, :1])
    assert torch.equal(first.labels, last.labels)
    assert first.classes == ("0", "1", "2", "3")


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint16", "uint64", ">i4"])
def test_labels_of_any_whole_type_become_int64(dtype: str, tmp_path: Path) -> None:
    found = alu.data.npz(save(tmp_path / "a.npz", images=PIXELS, labels=LABELS.astype(dtype)))
    assert found.labels.dtype == torch.int64
    assert found.labels.tolist() == LABELS.tolist()


def test_labels_in_one_column_are_labels(tmp_path: Path) -> None:
    found = alu.data.npz(save(tmp_path / "a.npz", images=PIXELS, labels=LABELS[:, None]))
    assert found.labels.tolist() == LABELS.tolist()


def test_floats_splits_and_classes(tmp_path: Path) -> None:
    names = np.array(["ant", "bee", "cat", "dog"])
    path = save(tmp_path / "a.npz", images=PIXELS / 255.0, labels=LABELS, classes=names)
    parts = {s: alu.data.npz(path, s) for s in ("train", "calibration", "validation", "test")}
    assert [len(part) for part in parts.values()] == [28, 6, 2, 4]
    assert len({i for part in parts.values() for i in part.indices.tolist()}) == 40
    assert parts["train"].classes == ("ant", "bee", "cat", "dog")
    assert torch.allclose(parts["test"].images, torch.from_numpy(PIXELS / 255.0).float()[parts["test"].indices])
    assert len(alu.data.npz(path, "train", n=5, seed=1)) == 5


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        (
            {"images": PIXELS.astype(np.float32), "labels": LABELS},
            "must lie in .0, 1..*Divide 0..255 values by 255",
        ),
        (
            {"images": np.where(PIXELS == 7, np.nan, PIXELS / 255), "labels": LABELS},
            "pixels are NaN or infinite",
        ),
        (
            {"images": np.where(PIXELS == 7, np.inf, PIXELS / 255), "labels": LABELS},
            "pixels are NaN or infinite",
        ),
        ({"images": PIXELS.astype(np.int64), "labels": LABELS}, "int64 have no agreed range"),
        ({"images": PIXELS[:, :2], "labels": LABELS}, r"shape \[40, 2, 6, 8\] are neither"),
        ({"images": PIXELS[:0], "labels": LABELS[:0]}, r"a.npz holds no image: its images have shape \[0, 3, 6, 8\]"),
        ({"images": PIXELS, "labels": LABELS[:0]}, "40 images but 0 labels"),
        ({"images": PIXELS, "labels": LABELS + 2**40}, "a label is 10995116.*below 100000"),
        ({"images": PIXELS, "labels": LABELS.astype(np.uint64) + 2**63}, "a label is 92233720.*below 100000"),
        ({"images": np.uint8(3), "labels": LABELS}, "holds no image"),
        ({"images": PIXELS, "labels": LABELS[:-1]}, "40 images but 39 labels"),
        ({"images": PIXELS, "labels": np.eye(4, dtype=int)[LABELS]}, r"Give labels.argmax\(1\)"),
        ({"images": PIXELS, "labels": LABELS / 1.0}, "labels must be whole numbers"),
        ({"images": PIXELS, "labels": LABELS - 1}, "labels run from -1 to 2"),
        ({"images": PIXELS, "labels": LABELS, "classes": np.array(["a", "b"])}, "there are 2 classes"),
        ({"images": PIXELS, "labels": LABELS, "classes": np.arange(4)}, "classes must be a list of names"),
    ],
)
def test_wrong_arrays_are_one_sentence(arrays: dict[str, Any], match: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=match):
        alu.data.npz(save(tmp_path / "a.npz", **arrays))


def test_missing_arrays_and_damaged_files_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds nothing; expected the arrays images and labels"):
        alu.data.npz(save(tmp_path / "empty.npz"))
    with pytest.raises(DataError, match=r"holds pictures, y; expected the arrays images and labels"):
        alu.data.npz(save(tmp_path / "a.npz", pictures=PIXELS, y=LABELS))
    with pytest.raises(StorageError, match="No such file"):
        alu.data.npz(tmp_path / "missing.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(DataError, match=r"is not an .npz file"):
        alu.data.npz(tmp_path / "text.npz")
    whole = save(tmp_path / "b.npz", images=PIXELS, labels=LABELS).read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[:5000])
    with pytest.raises(DataError, match=r"cut\.npz is damaged or truncated"):
        alu.data.npz(tmp_path / "cut.npz")
    flipped = bytearray(whole)
    flipped[3000] ^= 255
    (tmp_path / "flipped.npz").write_bytes(bytes(flipped))
    with pytest.raises(DataError, match=r"flipped\.npz is damaged"):
        alu.data.npz(tmp_path / "flipped.npz")
    with pytest.raises(UsageError, match="There is no split"):
        alu.data.npz(tmp_path / "b.npz", "dev")


class Harmful:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.target),)


def test_objects_in_an_npz_are_refused_and_not_run(tmp_path: Path) -> None:
    objects = np.array([Harmful(tmp_path / "ran")] * 40, dtype=object)
    with pytest.raises(UntrustedError, match="array of Python objects, which would run code"):
        alu.data.npz(save(tmp_path / "a.npz", images=PIXELS, labels=objects))
    assert not (tmp_path / "ran").exists()
