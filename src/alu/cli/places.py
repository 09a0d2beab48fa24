"""Places that a command writes to: refused before the work, not after it, if something would be lost or could not be
written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from alu.errors import StorageError, UsageError
from alu.storage import locked

HELD = ExitStack()
"""The places that the running command writes to."""


def hold(out: Path) -> None:
    """Keep other alu processes from writing to `out` until the command ends; refuse it if one does."""
    HELD.enter_context(locked(out))


def refuse_file(
    out: Path,
    what: str,
    reads: Iterable[Path] = (),
    ours: Callable[[Path], bool] | None = None,
    option: str = "--out",
) -> None:
    """Refuse a file that is a folder, one of those to read, or there already, unless `ours` says it may be replaced."""
    for path in reads:
        if out.resolve() == path.resolve():
            raise UsageError(f"{option} {out} is one of the files to read. Choose another {option}.")
    if out.is_dir():
        raise UsageError(f"{option} {out} is a folder; {what} is a file. Choose another {option}.")
    if out.exists() and (ours is None or not ours(out)):
        kind = f" and is not {what}" if ours is not None else ""
        raise UsageError(f"{option} {out} is already there{kind}. Choose another {option}.")
    refuse_unwritable(out, option)


def refuse_unwritable(out: Path, option: str = "--out") -> None:
    """Refuse a place below something that is no folder, or that the user may not write to."""
    above = next(folder for folder in out.absolute().parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise StorageError(
            f"{out} cannot be written: {above} is no folder that you may write to. Choose another {option}."
        )


def is_page(path: Path) -> bool:
    """Whether a file is a page that alu wrote, or at least a page."""
    with path.open("rb") as file:
        return file.read(64).lstrip().lower().startswith(b"<!doctype html")


def is_result(path: Path) -> bool:
    """Whether a file is a whole result of alu evaluate or alu merge."""
    from alu.evaluation.result import Result

    try:
        Result.load(path)
    except StorageError:
        return False
    return True
