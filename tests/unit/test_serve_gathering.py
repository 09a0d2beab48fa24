"""A batch begins when everything that has arrived is in the queue, and a lone picture waits for nobody."""

from __future__ import annotations

import asyncio
import time

import pytest

from alu.serve import gathering
from alu.serve.gathering import Gathering


def gathered(together: int, arrivals: int, turns: int) -> list[int]:
    """How many had arrived at each go, if one arrives every so many turns of the event loop."""

    async def play() -> list[int]:
        loop = asyncio.get_running_loop()
        came, seen = 0, list[int]()
        found = Gathering(lambda: seen.append(came))
        found.together = together
        for _ in range(arrivals):
            came += 1
            found.note(loop)
            for _ in range(turns):
                await asyncio.sleep(0)
        for _ in range(2 * gathering.QUIET):
            await asyncio.sleep(0)
        return seen

    return asyncio.run(play())


def test_a_batch_waits_for_those_who_are_still_coming() -> None:
    assert gathered(together=5, arrivals=5, turns=4) == [5]


def test_it_does_not_wait_once_nobody_comes() -> None:
    assert gathered(together=5, arrivals=2, turns=gathering.QUIET + 4) == [1, 2]


def test_who_was_alone_waits_for_nobody() -> None:
    assert gathered(together=1, arrivals=3, turns=4) == [1, 2, 3]


def test_a_loop_that_is_never_quiet_does_not_hold_a_batch_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "LONGEST", 0.01)

    async def play() -> float:
        loop = asyncio.get_running_loop()
        began = list[float]()
        found = Gathering(lambda: began.append(time.monotonic()))
        found.together = 9
        start = time.monotonic()
        while not began and time.monotonic() < start + 5:
            found.note(loop)
            await asyncio.sleep(0)
        return began[0] - start

    assert 0.005 < asyncio.run(play()) < 4
