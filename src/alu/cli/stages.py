"""Progress on standard error: one bar per stage of the work, each with the time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stages() -> Iterator[Callable[[str, int, int], None]]:
    """Call what it gives with (what is being done, how much is done, how much there is)."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    tasks: dict[str, TaskID] = {}

    def watch(what: str, done: int, total: int) -> None:
        if what not in tasks:
            tasks[what] = bar.add_task(what)
        bar.update(tasks[what], completed=done, total=total)

    with bar:
        yield watch
