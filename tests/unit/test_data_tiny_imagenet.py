"""Tiny ImageNet from a folder or an archive in the official layout."""

import io
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import alu.data
from alu.errors import DataError

Files = dict[str, bytes]
IDENTIFIERS = ["n02", "n01"]  # wnids.txt is not sorted


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ALU_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def jpeg(level: int, side: int = 64, mode: str = "RGB") -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.full((side, side), level, np.uint8)).convert(mode).save(file, "JPEG")
    return file.getvalue()


def official(per_class: int = 10) -> Files:
    files = {
        "wnids.txt": "\n".join(IDENTIFIERS).encode(),
        "words.txt": b"n01\tcrane, bird\nn02\tcrane, machine\nn03\tx",
    }
    for k, identifier in enumerate(IDENTIFIERS):
        for i in range(per_class):
            mode = "L" if i == 3 else "RGB"  # the real set has gray pictures too
            files[f"train/{identifier}/images/{identifier}_{i}.JPEG"] = jpeg(100 * k + i, mode=mode)
        files[f"train/{identifier}/{identifier}_boxes.txt"] = b"unused"
    for i in range(4):
        files[f"val/images/val_{i}.JPEG"] = jpeg(200 + i)
    files["test/images/test_0.JPEG"] = jpeg(255)
    files["val/val_annotations.txt"] = "".join(f"val_{i}.JPEG\tn0{1 + i % 2}\t0\t0\t9\t9\n" for i in range(4)).encode()
    return {f"tiny-imagenet-200/{name}": content for name, content in files.items()}


def as_folder(root: Path, files: Files) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def as_tar(root: Path, files: Files) -> Path:
    with tarfile.open(root / "tiny-imagenet-200-subset.tar.xz", "w:xz") as archive:
        for name, content in reversed(files.items()):  # annotations before, pictures in another order
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return root


def as_zip(root: Path, files: Files) -> Path:
    with zipfile.ZipFile(root / "tiny-imagenet-200.zip", "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return root / "tiny-imagenet-200.zip"


@pytest.mark.parametrize("write", [as_folder, as_tar, as_zip])
def test_folder_tar_and_zip_give_the_same_images(write: Callable[[Path, Files], Path], tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    root = write(tmp_path / "root", official())
    test = alu.data.tiny_imagenet("test", root=root)
    assert test.pixels[:, 0, 0, 0].tolist() == [200, 201, 202, 203]
    assert test.labels.tolist() == [0, 1, 0, 1]
    assert test.classes == ("crane (n01)", "crane (n02)"), "sorted identifiers; a shared name is told apart"
    parts = {s: alu.data.tiny_imagenet(s, root=root) for s in ("train", "calibration", "validation")}
    assert [len(part) for part in parts.values()] == [18, 1, 1]
    order = torch.cat([part.indices for part in parts.values()]).argsort()
    levels = torch.cat([part.pixels[:, 0, 0, 0] for part in parts.values()])[order]
    labels = torch.cat([part.labels for part in parts.values()])[order]
    assert levels.tolist() == [*range(100, 110), *range(10)]
    assert labels.tolist() == [0] * 10 + [1] * 10


def test_the_decoded_copy_is_used_the_second_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "root").mkdir()
    root = as_tar(tmp_path / "root", official())
    first = alu.data.tiny_imagenet("test", root=root)
    # The package's attribute of this name is the function, hence the module by its full name.
    monkeypatch.setattr(sys.modules["alu.data.tiny_imagenet"], "decode", None)
    again = alu.data.tiny_imagenet("test", root=root)
    alone = alu.data.tiny_imagenet("test")
    assert torch.equal(first.pixels, again.pixels)
    assert torch.equal(first.pixels, alone.pixels)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"words.txt": None}, "lacks words.txt"),
        ({"val/val_annotations.txt": b"val_0.JPEG\tn01\n"}, "has no label for val_1.JPEG"),
        ({"wnids.txt": b"n01"}, "has no label for n02"),
        ({"val/images/val_2.JPEG": jpeg(1, side=32)}, r"val_2\.JPEG in .* is 32 x 32 pixels; every image"),
        ({"val/images/val_2.JPEG": b"text"}, r"val_2\.JPEG in .* cannot be read as a picture"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, bytes | None], match: str, tmp_path: Path, cache: Path) -> None:
    files: dict[str, bytes | None] = {**official()}
    files.update({f"tiny-imagenet-200/{name}": content for name, content in change.items()})
    (tmp_path / "root").mkdir()
    root = as_tar(tmp_path / "root", {name: content for name, content in files.items() if content is not None})
    with pytest.raises(DataError, match=match):
        alu.data.tiny_imagenet("test", root=root)
    assert not cache.exists()


def test_a_cut_archive_is_one_sentence(tmp_path: Path) -> None:
    archive = next(as_tar(tmp_path, official()).glob("*.xz"))
    archive.write_bytes(archive.read_bytes()[:-100])
    with pytest.raises(DataError, match="cannot be read to its end"):
        alu.data.tiny_imagenet("test", root=archive)
