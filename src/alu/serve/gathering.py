"""Gathering: a batch begins when everything that has arrived is in the queue. It belongs to the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

QUIET = 32
"""Turns of the event loop without a new picture, after which no more are on their way: about half a millisecond."""
LONGEST = 0.03
"""Seconds after which a batch begins in any case: a loop that is flooded with requests is never quiet."""


class Gathering:
    """Looks for more pictures while the loop is still busy, and then lets a batch begin.

    Those who were answered together ask again together, but are read one after the other. If the engine took the first
    of them alone, two halves would take turns for ever: one computed, while the other is read and answered and takes
    Python's lock and a core from it. A lone picture has no one to wait for, and waits for nobody.

    Parameters
    ----------
    go
        Lets a batch begin.
    """

    def __init__(self, go: Callable[[], None]) -> None:
        self.together = 1
        """How many requests the last batch answered."""
        self._go, self._came, self._looking = go, 0, False

    def note(self, loop: asyncio.AbstractEventLoop) -> None:
        """Something has come or was answered; call it in the loop."""
        self._came += 1
        if not self._looking:
            self._looking = True
            loop.call_soon(self._look, loop, self._came, 0, loop.time() + LONGEST)

    def _look(self, loop: asyncio.AbstractEventLoop, before: int, quiet: int, until: float) -> None:
        quiet = quiet + 1 if self._came == before else 0
        if quiet < (QUIET if self.together > 1 else 1) and loop.time() < until:
            loop.call_soon(self._look, loop, self._came, quiet, until)
            return
        self._looking = False
        self._go()
