"""What every command does around its work: it checks where it may write, shows progress, and ends in order when it is
interrupted."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from alu.errors import AluError, StorageError, UsageError
from alu.progress import Watch
from alu.storage import locked

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

HELD = ExitStack()
"""The places that the running command writes to."""
LOG_SECONDS = 30.0
MOST_BARS = 6


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
    """Refuse a place below something that is not a folder, or that the user may not write to."""
    above = next(folder for folder in out.absolute().parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise StorageError(
            f"{out} cannot be written: {above} is not a folder you can write to. Choose another {option}."
        )


def refuse_class(out: Path, data: str) -> None:
    """Refuse a new folder inside a folder of pictures: the next command would take it for a class."""
    if Path(data).is_dir() and Path(data).resolve() in out.resolve().parents:
        raise UsageError(
            f"--out {out} lies in --data {data}, where it would be taken for a class. Choose another --out."
        )


def is_page(path: Path) -> bool:
    """Whether a file is an HTML page, as alu writes them."""
    with path.open("rb") as file:
        return file.read(64).lstrip().lower().startswith(b"<!doctype html")


class InterruptedCommandError(AluError):
    """The user pressed Ctrl-C, or the process received SIGTERM."""

    exit_code = 130


def heed_sigterm() -> None:
    """Treat SIGTERM like Ctrl-C from here on, so that files are kept or removed in order."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:
        signal.signal(signal.SIGTERM, interrupt)


def print_table(
    titles: Iterable[str], rows: Iterable[Iterable[str]], title: str | None = None, lines: bool = False
) -> None:
    """A table on standard output, if asked with lines between its rows. Square brackets in names of files and classes
    are no markup."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*titles, title=title, show_lines=lines)
    table.columns[0].overflow = "fold"  # a long file name is shown whole
    for row in rows:
        table.add_row(*row)
    Console(markup=False).print(table)


@contextmanager
def stages(shown: bool = True) -> Iterator[Watch]:
    """Progress on standard error: bars on a terminal, a line now and then in a log.

    Yields a function to call with (current work, amount done, amount in all).
    """
    if not shown:
        yield lambda what, done, total: None
        return
    if not sys.stderr.isatty():
        yield _lines()  # bars make a log unreadable
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    tasks: dict[str, TaskID] = {}

    def watch(what: str, done: int, total: int) -> None:
        if what not in tasks:
            _make_room(bar, tasks)
            tasks[what] = bar.add_task(what)
        bar.update(tasks[what], completed=done, total=total)

    with bar:
        yield watch


def _make_room(bar: Progress, tasks: dict[str, TaskID]) -> None:
    """Remove bars that are done, the oldest first, so that long work with many parts stays on one screen."""
    done = [what for what, number in tasks.items() if bar.tasks[bar.task_ids.index(number)].finished]
    for what in done[: max(0, len(tasks) - MOST_BARS + 1)]:
        bar.remove_task(tasks.pop(what))


def _lines() -> Watch:
    """Write a line with the time left whenever half a minute has passed."""
    started: dict[str, tuple[float, int]] = {}
    written = time.monotonic()

    def watch(what: str, done: int, total: int) -> None:
        nonlocal written
        now = time.monotonic()
        # A resumed training begins in the middle.
        begun, first = started.setdefault(what, (now, done))
        if now - written >= LOG_SECONDS and done > first:
            written = now
            left = (now - begun) / (done - first) * (total - done)
            sys.stderr.write(f"alu: {what}: {done} of {total}, about {left:.0f} s left\n")
            sys.stderr.flush()

    return watch
