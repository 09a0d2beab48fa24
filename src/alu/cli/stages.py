"""Progress on standard error: bars on a terminal, now and then a line in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

Watch = Callable[[str, int, int], None]
LOG_SECONDS = 30.0
MOST_BARS = 6


@contextmanager
def stages(shown: bool = True) -> Iterator[Watch]:
    """Call what it gives with (what is being done, how much is done, how much there is)."""
    if not shown:
        yield lambda what, done, total: None
        return
    if not sys.stderr.isatty():
        # Bars make a log unreadable, and short work needs no progress.
        yield _lines()
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
    """Take bars away that are done, the oldest first, so that long work with many parts stays on one screen."""
    done = [what for what, number in tasks.items() if bar.tasks[bar.task_ids.index(number)].finished]
    for what in done[: max(0, len(tasks) - MOST_BARS + 1)]:
        bar.remove_task(tasks.pop(what))


def _lines() -> Watch:
    """Writes a line with the time left whenever half a minute has passed."""
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
