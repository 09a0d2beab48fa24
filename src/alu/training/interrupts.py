"""Ctrl-C and SIGTERM wait for the end of a step, so that no work stops in the middle of one."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
TOGETHER = 5.0
"""Seconds within which torchrun passes on a signal that its processes may have received from the terminal already."""


class Interruption:
    """Whether a signal has asked the work to stop; a second one stops it at once."""

    def __init__(self, notice: str = "") -> None:
        self.notice = notice
        self.since: float | None = None

    @property
    def requested(self) -> bool:
        """Whether a signal has come."""
        return self.since is not None

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Note the first signal; raise KeyboardInterrupt on the second."""
        if self.since is None:
            self.since = time.monotonic()
            if self.notice and sys.stderr.isatty():  # not through sys.stderr, which may be in use at this moment
                os.write(2, f"\n{self.notice} Press Ctrl-C again to stop at once.\n".encode())
        elif int(os.environ.get("WORLD_SIZE", "1")) == 1 or time.monotonic() - self.since > TOGETHER:
            raise KeyboardInterrupt


@contextmanager
def deferred(notice: str = "") -> Iterator[Interruption]:
    """Note Ctrl-C and SIGTERM instead of acting on them, and show `notice` on a terminal; the handlers that were there
    are put back afterwards."""
    interruption = Interruption(notice)
    before = {}
    if threading.current_thread() is threading.main_thread():  # no other thread may set handlers
        for number in SIGNALS:
            handler = signal.getsignal(number)
            if handler not in (signal.SIG_IGN, None):  # a process in the background ignores Ctrl-C
                before[number] = handler
                signal.signal(number, interruption.receive)
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
