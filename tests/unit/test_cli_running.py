"""Progress: many parts do not fill the screen, and what is not done stays."""

from __future__ import annotations

from rich.progress import Progress

from alu.cli.running import MOST_BARS, _make_room


def test_done_bars_make_room_and_others_stay() -> None:
    bar = Progress()
    tasks = {"still going": bar.add_task("still going", total=10)}
    for number in range(40):
        _make_room(bar, tasks)
        tasks[str(number)] = bar.add_task(str(number), total=1)
        bar.update(tasks[str(number)], completed=1)
    assert len(bar.tasks) <= MOST_BARS
    assert "still going" in tasks
    assert "39" in tasks
