"""Known data sets: looked for in a folder or an archive, decoded once, and kept in the cache as one safetensors file.

Archives are read in memory; nothing is unpacked to disk.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from alu.data.dataset import Dataset
from alu.data.splits import SPLITS, disjoint
from alu.errors import DataError, check_choice
from alu.storage import explained, sha256, write_tensors

Half = tuple[Tensor, Tensor]  # uint8 pixels [N, C, H, W] and labels [N]
HELD_OUT = 0.05  # of the training images, for calibration and for validation each
LARGEST_FILE = 2**30  # the largest real one, CIFAR-100's train.bin, has 154 MB; a crafted archive may promise more


def cache_folder() -> Path:
    """The folder of decoded data sets: the environment variable ALU_CACHE, or ~/.cache/alu."""
    named = os.environ.get("ALU_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "alu"


@dataclass(frozen=True)
class CachedCopy:
    """A safetensors file with train_pixels, train_labels, test_pixels and test_labels."""

    path: Path

    @property
    def source(self) -> str:
        """Where the images were read from."""
        with self._opened() as file:
            return str((file.metadata() or {}).get("source", "unknown"))

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of their labels."""
        with self._opened() as file:
            return tuple(json.loads((file.metadata() or {}).get("classes", "[]")))

    def half(self, which: str) -> Half:
        """Pixels and int64 labels of "train" or "test"; pixels stay on disk until they are used."""
        with self._opened() as file:
            return file.get_tensor(f"{which}_pixels"), file.get_tensor(f"{which}_labels").to(torch.int64)

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        try:
            with explained(self.path, "read"), safe_open(self.path, framework="pt") as file:
                yield file
        except SafetensorError as error:
            raise DataError(
                f"The cached copy {self.path} is damaged ({error}). Delete it; the next call makes it again."
            ) from error


def store(path: Path, halves: Mapping[str, Half], classes: tuple[str, ...], source: str) -> CachedCopy:
    """Write both halves to the cache, whole or not at all."""
    tensors = {}
    for which, (pixels, labels) in halves.items():
        tensors[f"{which}_pixels"] = pixels
        tensors[f"{which}_labels"] = labels.to(torch.uint8)  # no data set here has more than 256 classes
    write_tensors(path, tensors, {"source": source, "classes": json.dumps(classes)})
    return CachedCopy(path)


@dataclass(frozen=True)
class Source:
    """How the files of a data set are recognised and decoded.

    `archives` are file name patterns, the preferred one first; `markers` are files that only the unpacked folder has.
    """

    name: str
    title: str
    archives: tuple[str, ...]
    markers: tuple[str, ...]
    decode: Callable[[Path], tuple[dict[str, Half], tuple[str, ...]]]

    def find(self, root: str | Path | None = None) -> CachedCopy:
        """The cached copy of the data set in `root`, made on first use; without a root, the only copy there is."""
        if root is not None:
            place = self.locate(Path(root))
            path = cache_folder() / f"{self.name}-{fingerprint(place)}.safetensors"
            if path.exists():
                return CachedCopy(path)
            return store(path, *self.decode(place), str(place))
        copies = cached_copies(self.name)
        if len(copies) == 1:
            return copies[0]
        if copies:
            places = ", ".join(copy.source for copy in copies)
            raise DataError(f"{self.title} was read from several places ({places}). Choose one of them with root=.")
        raise DataError(
            f"{self.title} is not here. Get its official archive and give root= its path, or the path of the folder "
            "it is in; afterwards root= is no longer needed."
        )

    def locate(self, root: Path) -> Path:
        """The archive or folder that holds the data set: `root` itself or something directly inside it."""
        if root.is_file():
            return root
        if not root.is_dir():
            raise DataError(
                f"{self.title} was looked for in {root}, which does not exist. Give root= a folder or an archive."
            )
        with explained(root, "read"):
            inside = sorted(root.iterdir())
            for folder in (root, *(path for path in inside if path.is_dir())):
                if any((folder / marker).exists() for marker in self.markers):
                    return folder
        for pattern in self.archives:
            for path in inside:
                if path.is_file() and fnmatch(path.name, pattern):
                    return path
        raise DataError(
            f"{self.title} is not in {root}: expected the file {' or '.join(self.archives)}, or the unpacked folder "
            f"with {' or '.join(self.markers)}. Give root= the place where it is."
        )


def cached_copies(name: str) -> list[CachedCopy]:
    """Every copy of this data set in the cache."""
    patterns = (f"{name}.safetensors", f"{name}-*.safetensors")  # not name*: cifar10 would find cifar100
    return [CachedCopy(path) for pattern in patterns for path in sorted(cache_folder().glob(pattern))]


def held_out_parts(labels: Tensor) -> dict[str, Tensor]:
    """Positions of train, calibration and validation in a training half without official held-out parts."""
    size = max(1, round(HELD_OUT * len(labels)))
    return disjoint(labels, {"calibration": size, "validation": size}, seed=0)


def split_of(
    name: str,
    split: str,
    half: Callable[[str], Half],
    classes: tuple[str, ...],
    parts: Callable[[Tensor], dict[str, Tensor]] = held_out_parts,
) -> Dataset:
    """One split of a data set that comes in a training and a test half."""
    check_choice("split", split, SPLITS)
    if split == "test":
        return Dataset(*half("test"), classes, name, split)
    pixels, labels = half("train")
    return Dataset(pixels, labels, classes, name, split).take(parts(labels)[split])


def files_in(place: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every wanted regular file, in the order of the archive or sorted by name.

    Names are relative with forward slashes. Links and devices in an archive are skipped.
    """
    try:
        for name, size, read in _entries(place):
            if wanted(name):
                if size > LARGEST_FILE:
                    raise DataError(f"{name} in {place} has {size} bytes; no data set has files above {LARGEST_FILE}.")
                yield name, read()
    except (tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, OSError) as error:
        # The first line only: tarfile goes on with a line for each kind of archive.
        reason = str(error).partition("\n")[0].rstrip(":")
        raise DataError(
            f"{place} cannot be read to its end ({reason}): it is damaged, truncated or not an archive. "
            "Get a fresh copy."
        ) from error


def _entries(place: Path) -> Iterator[tuple[str, int, Callable[[], bytes]]]:
    """Name, size and reader of every regular file."""
    if place.is_dir():
        for path in sorted(place.rglob("*")):
            if path.is_file():
                yield path.relative_to(place).as_posix(), path.stat().st_size, path.read_bytes
    elif zipfile.is_zipfile(place):
        with zipfile.ZipFile(place) as archive:
            for entry in archive.infolist():
                if not entry.is_dir():
                    yield entry.filename, entry.file_size, partial(archive.read, entry)
    else:
        with tarfile.open(place, "r:*") as tape:
            for member in tape:
                if member.isreg():
                    yield member.name, member.size, cast(IO[bytes], tape.extractfile(member)).read


def fingerprint(place: Path) -> str:
    """A short hash of the archive's content, or of the names, sizes and dates of a folder's files."""
    if place.is_file():
        return sha256(place)[:16]
    digest = hashlib.sha256()
    with explained(place, "read"):
        for path in sorted(place.rglob("*")):
            if path.is_file():
                facts = path.stat()
                digest.update(f"{path.relative_to(place)}\0{facts.st_size}\0{facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]
