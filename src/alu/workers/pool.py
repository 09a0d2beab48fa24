"""Pool: what shares out pieces of work; the plainest one does them itself, one after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from alu.errors import UsageError
from alu.progress import Watch, silent

Heard = Callable[[int, str, int, int], None]
"""Called with the number of a piece, and what it reports: what is done, how much, of how much."""


@dataclass(frozen=True)
class Kept:
    """Where a piece keeps what an interrupted run goes on from: the files of a folder whose names match."""

    folder: Path
    names: str = "**/*"

    def files(self) -> dict[str, Path]:
        """The files that are there, by their place in the folder."""
        paths = self.folder.glob(self.names) if self.folder.is_dir() else ()
        return {path.relative_to(self.folder).as_posix(): path for path in sorted(paths) if path.is_file()}


@dataclass(frozen=True)
class Desk:
    """What a piece of work has besides its input: a folder whose files are kept, and a way to say how far it is."""

    folder: Path | None = None
    watch: Watch = silent


Work = Callable[[Any, Any, Desk], Any]
"""A function of a module: it is called with what all pieces share, one piece, and its desk."""


class Pool(ABC):
    """Shares out pieces of work."""

    apart = False
    """Whether pieces run in other processes."""

    def refuse_device(self, device: object) -> None:
        """Refuse work on another device than the processor, unless this process does it."""
        if self.apart and str(device) != "cpu":
            raise UsageError(
                f"Workers compute on the processor, and this work is on {device}. Leave out workers=, or for several "
                "GPUs start one evaluation for each with a shard= of its own."
            )

    @abstractmethod
    def run(
        self, work: Work, shared: Any, pieces: Iterable[Any], *, heard: Heard = silent,
        kept: Callable[[Any], Kept | None] = silent, in_order: bool = False,
    ) -> Iterator[tuple[int, Any]]:  # fmt: skip
        """Yield the number of a piece and what came of it as soon as it is done, if asked in the order of the pieces.

        `kept` says where the files of a piece are, on this machine; wherever it runs, it finds them and they come back.
        """


class ThisProcess(Pool):
    """Does every piece itself."""

    def run(
        self, work: Work, shared: Any, pieces: Iterable[Any], *, heard: Heard = silent,
        kept: Callable[[Any], Kept | None] = silent, in_order: bool = False,
    ) -> Iterator[tuple[int, Any]]:  # fmt: skip
        """One piece after the other, each when it is asked for."""
        for number, piece in enumerate(pieces):
            place = kept(piece)
            yield number, work(shared, piece, Desk(None if place is None else place.folder, partial(heard, number)))


def pool_of(workers: int | Pool | None) -> AbstractContextManager[Pool]:
    """The pool that the argument `workers` stands for: this process, so many others, or one that is there already; only
    what is started for it ends with the block."""
    if isinstance(workers, Pool):
        return nullcontext(workers)
    if workers is None:
        return nullcontext(ThisProcess())
    from alu.workers.on_ray import Workers

    return Workers(workers)
