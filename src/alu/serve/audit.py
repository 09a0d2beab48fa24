"""The audit log: one line of JSON per decision, no pixels, rotated by size, whole after a crash."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from alu.errors import StorageError
from alu.storage import explained

BLOCK = 1 << 16
START = b'{"time": "'
"""How every line begins."""


class AuditLog:
    """A file of JSON lines that only grows, until it is `most` bytes long and becomes NAME.1; NAME.1 then becomes
    NAME.2, and so on up to `keep`.

    Lines are written before their answers are sent, each batch with one call, so that a process that is killed leaves
    whole lines; a last line that is torn, as after a power cut, is cut off when the file is opened again.

    Parameters
    ----------
    path
        The file; only its owner may read it.
    most
        Bytes after which a new file is begun.
    keep
        Older files that are kept.
    """

    def __init__(self, path: Path, most: int = 100 * (1 << 20), keep: int = 10) -> None:
        self.path, self.most, self.keep = path, most, keep
        self.repaired = 0
        """Bytes of a torn line that were cut off."""
        self._lock = threading.Lock()
        if not is_audit(path):
            raise StorageError(f"{path} is there already and is not an audit log of alu serve. Choose another --audit.")
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._open()

    def _open(self) -> None:
        self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        size = os.fstat(self._file).st_size
        self._size = whole_lines(self._file, size)
        if self._size < size:
            self.repaired = size - self._size
            os.ftruncate(self._file, self._size)

    def write(self, rows: Iterable[dict[str, Any]]) -> None:
        """Add a line for each row; a StorageError, and no part of them, if that is not possible."""
        content = "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows).encode()
        with self._lock, explained(self.path):
            if self._size and self._size + len(content) > self.most:
                self._rotate()
            try:
                left = memoryview(content)
                while left:
                    left = left[os.write(self._file, left) :]
            except OSError:
                os.ftruncate(self._file, self._size)  # no half of a line
                raise
            self._size += len(content)

    def sync(self) -> None:
        """Have the system write to disk what was handed to it."""
        with self._lock, explained(self.path):
            os.fsync(self._file)

    def close(self) -> None:
        """Write everything to disk and let go of the file."""
        self.sync()
        os.close(self._file)

    def _rotate(self) -> None:
        os.fsync(self._file)
        for number in range(self.keep - 1, 0, -1):
            older = self._older(number)
            if older.exists():
                os.replace(older, self._older(number + 1))
        if self.keep:
            os.replace(self.path, self._older(1))
        else:
            self.path.unlink()
        os.close(self._file)
        self._open()

    def _older(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")


def is_audit(path: Path) -> bool:
    """Whether a file is an audit log, empty, or not there."""
    with explained(path, "read"):
        if not path.exists():
            return True
        if not path.is_file():
            return False
        with path.open("rb") as file:
            first = file.read(len(START))
    return START.startswith(first)


def whole_lines(file: int, size: int) -> int:
    """How many of the first `size` bytes of an open file are whole lines."""
    end = size
    while end > 0:
        start = max(0, end - BLOCK)
        at = os.pread(file, end - start, start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0
