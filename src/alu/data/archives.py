"""The files of a folder or an archive, read in memory: nothing is unpacked to disk."""

from __future__ import annotations

import hashlib
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import IO, cast

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

    Names are relative with forward slashes. Links and devices in an archive are skipped.
    """
    try:
        for name, size, read in _entries(place):
            if wanted(name):
                if size > LARGEST_FILE:
                    raise DataError(f"{name} in {place} has {size} bytes; no data set has files above {LARGEST_FILE}.")
                yield name, read()
    except (tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, OSError) as error:
        raise DataError(
            f"{place} cannot be read to its end ({error}): it is damaged, truncated or not an archive. "
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
