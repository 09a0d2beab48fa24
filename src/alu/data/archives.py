"""The files of a folder or an archive, read in memory: nothing is unpacked, so nothing lands elsewhere."""

from __future__ import annotations

import hashlib
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

from alu.errors import DataError
from alu.storage import explained, sha256

LARGEST_FILE = 2**30  # the largest real one, CIFAR-100's train.bin, has 154 MB; a crafted archive may promise more


def locate(root: Path, who: str, archives: tuple[str, ...], markers: tuple[str, ...]) -> Path:
    """The archive or folder that holds a data set: `root` itself or something directly inside it.

    `archives` are file name patterns, the preferred one first; `markers` are files that only the unpacked
    folder has.
    """
    if root.is_file():
        return root
    if not root.is_dir():
        raise DataError(f"{who} was looked for in {root}, which does not exist. Give root= a folder or an archive.")
    with explained(root, "read"):
        inside = sorted(root.iterdir())
        for folder in (root, *(path for path in inside if path.is_dir())):
            if any((folder / marker).exists() for marker in markers):
                return folder
    for pattern in archives:
        for path in inside:
            if path.is_file() and fnmatch(path.name, pattern):
                return path
    raise DataError(
        f"{who} is not in {root}: expected the file {' or '.join(archives)}, or the unpacked folder with "
        f"{' or '.join(markers)}. Give root= the place where it is."
    )


def files_in(place: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every wanted regular file, in the order of the archive or sorted by name.

    Names are relative with forward slashes. Links and devices in an archive are passed over.
    """
    with _damage_explained(place):
        if place.is_dir():
            yield from _folder_files(place, wanted)
        elif zipfile.is_zipfile(place):
            yield from _zip_files(place, wanted)
        else:
            yield from _tar_files(place, wanted)


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


@contextmanager
def _damage_explained(place: Path) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, OSError) as error:
        raise DataError(
            f"{place} cannot be read to its end ({error}): it is damaged, cut short or no archive at all. "
            "Get a fresh copy."
        ) from error


def _folder_files(place: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    for path in sorted(place.rglob("*")):
        name = path.relative_to(place).as_posix()
        if wanted(name) and path.is_file():
            _check_size(place, name, path.stat().st_size)
            yield name, path.read_bytes()


def _zip_files(place: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(place) as archive:
        for member in archive.infolist():
            if not member.is_dir() and wanted(member.filename):
                _check_size(place, member.filename, member.file_size)
                yield member.filename, archive.read(member)


def _tar_files(place: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(place, "r:*") as archive:
        for member in archive:
            if member.isreg() and wanted(member.name):
                _check_size(place, member.name, member.size)
                opened = archive.extractfile(member)
                if opened is not None:
                    yield member.name, opened.read()


def _check_size(place: Path, name: str, size: int) -> None:
    if size > LARGEST_FILE:
        raise DataError(f"{name} in {place} has {size} bytes; no data set has files above {LARGEST_FILE}.")
