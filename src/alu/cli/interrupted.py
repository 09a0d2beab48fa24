"""Ctrl-C and SIGTERM end every command in the same way: one sentence and exit code 130."""

from __future__ import annotations

import signal
from types import FrameType

from alu.errors import AluError


class InterruptedCommandError(AluError):
    """The user pressed Ctrl-C, or the process received SIGTERM."""

    exit_code = 130


def heed_sigterm() -> None:
    """Treat SIGTERM like Ctrl-C from here on, so that files are kept or removed in order."""
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:
        signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
