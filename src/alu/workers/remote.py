"""What runs in a worker: one piece of work, its files and its words on the way back. Ray is imported by who calls."""

from __future__ import annotations

import hashlib
import os
import pickle
import platform
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import alu
from alu.errors import AluError, WorkersError
from alu.workers.pool import Desk, Kept, Work

EVERY = 0.5
"""Seconds between two reports of a piece that has no new file."""
_RECEIVED: dict[str, Any] = {}
"""What the pieces of the present run share, unpacked once in each worker."""


@dataclass(frozen=True)
class Task:
    """One piece of work, ready to travel."""

    work: Work
    piece: Any
    files: dict[str, bytes]
    """What an earlier run, or a lost worker, has left."""
    names: str | None
    """Which files come back; None if the piece keeps none."""
    code: dict[str, str]
    """The versions of the process that asks."""
    place: str | None = None
    """Where its folder is made, which a lost worker leaves behind; None is where such things usually are."""


@dataclass
class News:
    """What a worker has to say about its piece."""

    said: dict[str, tuple[int, int]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    warned: list[str] = field(default_factory=list)
    over: bool = False
    value: Any = None
    error: BaseException | None = None


@cache
def code() -> dict[str, str]:
    """The versions that results depend on; of alu itself the code, since two checkouts have one version."""
    package = Path(alu.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = "none"
    return {"Python": platform.python_version(), "torch": torch, "the code of alu": digest.hexdigest()[:12]}


def perform(key: str, receive: Callable[[], Any], task: Task) -> Iterator[News]:
    """Do a piece in a thread of its own and yield its news until it is over."""
    news: SimpleQueue[News] = SimpleQueue()
    Thread(target=_perform, args=(key, receive, task, news.put), daemon=True).start()
    while True:
        item = news.get()
        yield item
        if item.over:
            return


def _perform(key: str, receive: Callable[[], Any], task: Task, tell: Callable[[News], None]) -> None:
    """The piece from its input to its last news, whatever happens."""
    last = News(over=True)
    try:
        _refuse_other_code(task.code)
        _one_thread()
        made = tempfile.TemporaryDirectory(prefix="alu-piece-", dir=task.place) if task.names else nullcontext("")
        with made as place, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            told = _Told(Kept(Path(place), task.names or ""), tell)
            told.put(task.files)
            desk = Desk(Path(place) if task.names else None, told.watch)
            try:
                last.value = task.work(_shared(key, receive), task.piece, desk)
            finally:
                last.files, last.said = told.changed(), told.said
                last.warned = [str(one.message) for one in caught if one.category.__name__ == "AluWarning"]
    except BaseException as error:
        last.value, last.error = None, _sendable(error)
    tell(last)


def _refuse_other_code(wanted: dict[str, str]) -> None:
    """Results of other code than that of the process that asks would be written down as its own."""
    here = code()
    if differs := [f"{name} is {here[name]}, not {wanted[name]}" for name in wanted if here[name] != wanted[name]]:
        raise WorkersError(
            f"The worker on {platform.node()} is not like this process: {'; '.join(differs)}. Install the same on "
            "every machine."
        )


def _one_thread() -> None:
    """As many workers as cores, so one thread each."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("MKL_NUM_THREADS", "1")
    import torch

    torch.set_num_threads(1)


def _shared(key: str, receive: Callable[[], Any]) -> Any:
    """What all pieces of a run share; it stays until another run begins."""
    if key not in _RECEIVED:
        _RECEIVED.clear()
        try:
            _RECEIVED[key] = receive()
        except Exception as error:
            raise WorkersError(
                f"The worker on {platform.node()} could not read what was sent to it ({_in_short(error)}). Code of "
                "your own must be importable on every machine, and files that it reads must be there."
            ) from error
    return _RECEIVED[key]


class _Told:
    """What was said of a piece so far."""

    def __init__(self, kept: Kept, tell: Callable[[News], None]) -> None:
        self.kept, self.tell = kept, tell
        self.said: dict[str, tuple[int, int]] = {}
        self.known: dict[str, tuple[int, int]] = {}
        self.when = time.monotonic()

    def put(self, files: dict[str, bytes]) -> None:
        """Lay out the files of an earlier run."""
        for name, content in files.items():
            path = self.kept.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self.changed()

    def changed(self) -> dict[str, bytes]:
        """The files that are new or different since the last time; every file of alu appears whole."""
        found = {}
        for name, path in self.kept.files().items() if self.kept.names else ():
            facts = path.stat()
            seen = (facts.st_size, facts.st_mtime_ns)
            if self.known.get(name) != seen:
                self.known[name], found[name] = seen, path.read_bytes()
        return found

    def watch(self, what: str, done: int, total: int) -> None:
        """Report now if there is a new file or the last report is old; what is not said now is said with the next."""
        self.said[what] = (done, total)
        files = self.changed()
        if files or time.monotonic() - self.when >= EVERY:
            self.tell(News(said=self.said, files=files))
            self.said, self.when = {}, time.monotonic()


def _sendable(error: BaseException) -> BaseException:
    """The error itself where it survives the journey, else one that says the same; with where it happened."""
    place = "".join(traceback.format_exception(error))
    # A traceback keeps frames alive, and frames cannot travel.
    error.__traceback__ = error.__cause__ = error.__context__ = None
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = AluError(str(error)) if isinstance(error, AluError) else RuntimeError(_in_short(error))
    error.add_note(f"In a worker (process {os.getpid()} on {platform.node()}, {sys.executable}):\n{place}")
    return error


def _in_short(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
