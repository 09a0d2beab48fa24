"""Pieces of work for other processes, and models that end theirs."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from alu import Defense
from alu.check import warn
from alu.detectors import LogitShift
from alu.errors import MissingExtraError
from alu.purifiers import Blur
from alu.workers import Desk
from tests.toys import Toy, toy_images


def squared(shared: int, piece: int, desk: Desk) -> tuple[int, int, int]:
    """The first piece takes longest."""
    if piece == 0:
        time.sleep(0.3)
    desk.watch("squaring", 1, 1)
    return piece * piece + shared, os.getpid(), torch.get_num_threads()


def number(shared: Any, piece: int, desk: Desk) -> int:
    return piece


def failing(shared: str, piece: int, desk: Desk) -> None:
    if shared == "extra":
        raise MissingExtraError("Somebody", "something", "some")
    raise ValueError(shared)


def warning(shared: str, piece: int, desk: Desk) -> None:
    warn(shared)


def in_two_parts(shared: str, piece: int, desk: Desk) -> str:
    """Writes a file and reports it; then, where there was none before, its process is killed."""
    assert desk.folder is not None
    first = desk.folder / "inside" / "first.txt"
    if not first.exists():
        first.parent.mkdir()
        first.write_text(f"piece {piece}")
        desk.watch("half", 1, 2)
        time.sleep(0.3)  # the report is on its way
        os.kill(os.getpid(), signal.SIGKILL)
    (desk.folder / "second.txt").write_text(shared)
    return first.read_text()


def dying(shared: None, piece: int, desk: Desk) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Mortal(Toy):
    """The same answers as a toy; the first other process that has asked often enough is killed, once."""

    def __init__(self, mark: Path, calls: int) -> None:
        super().__init__()
        self.mark, self.calls, self.home = str(mark), calls, os.getpid()

    def forward(self, images: Tensor) -> Tensor:
        if os.getpid() != self.home:
            self.calls -= 1
            if self.calls == 0 and not Path(self.mark).exists():
                Path(self.mark).touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(images)


def mortal_defense(mark: Path, calls: int, rule: str = "alu") -> Defense:
    """A calibrated defence around such a classifier."""
    made = Defense(Mortal(mark, calls), Blur(0.5), LogitShift(0.05), rule)  # type: ignore[arg-type]
    return made.calibrate(toy_images(60, seed=9))
