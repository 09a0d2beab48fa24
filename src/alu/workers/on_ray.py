"""Workers: processes that Ray starts or finds. Ray is imported when they are made, and nowhere else."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

from alu.errors import MissingExtraError, UsageError, WorkersError
from alu.progress import silent
from alu.storage import explained
from alu.workers import remote
from alu.workers.pool import Heard, Kept, Pool, Work

TRIES = 3
"""So many workers may be lost with the same piece before the run gives up."""
AHEAD = 2
"""Pieces that are on their way for each worker, so that none waits for the next."""
CONNECT = 5.0
"""Seconds within which something must answer at the address of a cluster."""
LONGEST_FOLDER = 24
"""Letters of a temporary folder in which Ray's sockets, whose paths are limited, still have room."""
SETTINGS = 4
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, SETTINGS, 0, 0, 0, 0, 0])
"""How HTTP/2 begins, which Ray speaks: with a frame of settings, which is what comes back too."""
TOKEN = secrets.token_hex(16)
"""What keeps others on the network away from the Ray that this process starts."""


@dataclass
class _Running:
    """A piece on its way."""

    number: int
    piece: Any
    kept: Kept | None
    lost: int = 0


class Workers(Pool):
    """Processes that share work, with one thread each: of this machine, or of a Ray cluster.

    They start with the first work and end with `close` or the `with` block; a Ray that was running before stays. Needs
    the extra "ray".

    Parameters
    ----------
    count
        How many processes work at once; as many as there are cores by default.
    address
        Where a Ray cluster is that runs already: "auto" on one of its machines, or HOST:PORT. None starts a Ray on this
        machine, for this process alone.

    Examples
    --------
    >>> workers = alu.Workers(2)  # then, for example: alu.evaluate(defense, test, workers=workers)
    >>> workers.count
    2
    """

    apart = True

    def __init__(self, count: int | None = None, address: str | None = None) -> None:
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
            raise UsageError(f"workers is a number of processes, at least 1; it was given {count!r}.")
        if address is not None and address != "auto" and not re.fullmatch(r"[\w.-]+:\d{1,5}", address):
            raise UsageError(
                f'The address of a Ray cluster is "auto" or HOST:PORT, such as 10.0.0.1:6379; {address!r} is neither. '
                "Run this on one of the cluster's machines."
            )
        self._ray = _library()
        self.address, self._asked = address, count
        self.count: int = count or _cores()
        """How many work at once."""
        self._started = self._ours = False
        self._remote: Any = None
        self._folder: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> Self:
        """Start or find the processes now, not with the first work; returns itself."""
        if self._started:
            return self
        ray = self._ray
        if (here := os.getcwd()) not in sys.path:  # as when a classifier is given as module:function
            sys.path.insert(0, here)
        if not ray.is_initialized():
            if self.address not in (None, "auto"):
                _refuse_unreachable(str(self.address))
            with _signals(), _environment(self.address is None), _explained_start(self.address):
                ray.init(**self._settings(), log_to_driver=False, logging_level="ERROR")
            self._ours = True
            _hush(ray)
        if self._asked is None:
            self.count = max(1, int(ray.cluster_resources().get("CPU", 1)))
        # Workers of a Ray of our own are as many as were asked for; in somebody else's we do not send more.
        self._ahead = self.count * (1 if self._asked and not (self._ours and self.address is None) else AHEAD)
        self._remote = ray.remote(num_cpus=1, max_retries=0, num_returns="streaming")(_perform)
        self._started = True
        return self

    def _settings(self) -> dict[str, Any]:
        """What Ray is started with; of one that runs already only its address is known."""
        if self.address is not None:
            return {"address": self.address}
        base = tempfile.gettempdir()
        self._folder = tempfile.mkdtemp(prefix="alu-ray-", dir=base if len(base) <= LONGEST_FOLDER else "/tmp")
        self._forget = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return {"num_cpus": self.count, "include_dashboard": False, "_temp_dir": self._folder}

    def close(self) -> None:
        """End the processes that were started here, and leave a cluster that was found."""
        if self._ours:
            self._ray.shutdown()
            if self.address is None:
                self._forget()
        self._started = self._ours = False

    def run(
        self, work: Work, shared: Any, pieces: Iterable[Any], *, heard: Heard = silent,
        kept: Callable[[Any], Kept | None] = silent, in_order: bool = False,
    ) -> Iterator[tuple[int, Any]]:  # fmt: skip
        """Yield the number of a piece and what came of it as soon as it is done, if asked in the order of the pieces.

        A worker that is lost costs what its piece did since its last file; the piece runs again elsewhere.

        Parameters
        ----------
        work, shared, pieces
            A function of a module, called with `shared`, one of the pieces and its desk (`alu.workers.Desk`).
        heard
            Called with the number of a piece, and what it reports: what is done, how much, of how much.
        kept
            Where the files of a piece are, on this machine; they travel with it and come back.
        in_order
            Whether pieces are yielded in their order.
        """
        self.start()
        sent = self._sent(shared)
        waiting = enumerate(pieces)
        running: dict[Any, _Running] = {}
        done: dict[int, Any] = {}
        turn = 0
        try:
            while True:
                while len(running) + len(done) < self._ahead and (one := next(waiting, None)):
                    item = _Running(one[0], one[1], kept(one[1]))
                    running[self._start(sent, work, item)] = item
                if not running:
                    return
                for item, value in self._finished(sent, work, running, heard):
                    if in_order:
                        done[item.number] = value
                    else:
                        yield item.number, value
                while turn in done:
                    yield turn, done.pop(turn)
                    turn += 1
        finally:
            for task in running:
                with suppress(Exception):
                    self._ray.cancel(task, force=True)

    def _sent(self, shared: Any) -> list[Any]:
        """What all pieces share, in Ray's store; in a list, so that a worker fetches it once and not for each piece."""
        try:
            return [self._ray.put(shared)]
        except Exception as error:  # pickle has no error of its own for what it cannot do
            reason = " ".join(str(error).split("\n")[0].split()) or type(error).__name__
            raise WorkersError(
                f"This cannot be sent to other processes ({reason}). Leave out workers=, or make the classifier of "
                "parts that can be copied: no open files, sessions or locks."
            ) from error

    def _start(self, sent: list[Any], work: Work, item: _Running) -> Any:
        files = {} if item.kept is None else {name: path.read_bytes() for name, path in item.kept.files().items()}
        names = None if item.kept is None else item.kept.names
        return self._remote.remote(sent, remote.Task(work, item.piece, files, names, remote.code(), self._folder))

    def _finished(
        self, sent: list[Any], work: Work, running: dict[Any, _Running], heard: Heard
    ) -> Iterator[tuple[_Running, Any]]:
        """Listen until something happens; the pieces that are done. Pieces whose worker was lost start again."""
        ray = self._ray
        ready, _ = ray.wait(list(running), num_returns=1, timeout=1.0)
        for task in ready:
            item = running[task]
            try:
                news: remote.News = ray.get(next(task))
            except ray.exceptions.RayTaskError as error:  # before our own code could catch it
                reason = str(error.cause).strip().splitlines()[-1]  # of a traceback
                raise WorkersError(f"A worker failed ({reason}). Install the same on every machine.") from error
            except (ray.exceptions.RayError, StopIteration) as error:
                del running[task]
                item.lost += 1
                if item.lost >= TRIES:
                    raise WorkersError(
                        f"A worker was lost {TRIES} times with the same piece of work. Memory may be short "
                        f"({type(error).__name__}); use fewer workers."
                    ) from error
                running[self._start(sent, work, item)] = item
                continue
            if news.over:
                del running[task]  # its worker is free again, also if there was an error
            self._receive(news, item, heard)
            if news.over:
                yield item, news.value

    @staticmethod
    def _receive(news: remote.News, item: _Running, heard: Heard) -> None:
        """Keep the files, pass on the words, raise the error."""
        from alu.check import warn

        for name, content in news.files.items():
            assert item.kept is not None
            path = item.kept.folder / name
            with explained(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                partial = path.with_name(f".{path.name}.new")
                partial.write_bytes(content)
                os.replace(partial, path)
        for what, (amount, total) in news.said.items():
            heard(item.number, what, amount, total)
        for sentence in news.warned:
            warn(sentence)
        if news.error is not None:
            raise news.error


def _perform(sent: list[Any], task: remote.Task) -> Iterator[remote.News]:
    """What Ray runs: the piece, with a way to fetch what all pieces share."""
    import ray

    yield from remote.perform(sent[0].hex(), lambda: ray.get(sent[0]), task)


def _library() -> Any:
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("Work in several processes", "ray", "ray") from error
    return ray


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _signals() -> Iterator[None]:
    """Put back what SIGTERM does: Ray's own answer to it would leave work half written."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _environment(ours: bool) -> Iterator[None]:
    """What a Ray of ours and its workers inherit: nothing is reported, nobody else may use it, one thread each."""
    wanted = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}
    if ours:
        wanted |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        if not {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & set(os.environ):
            wanted["RAY_AUTH_TOKEN"] = TOKEN  # which Ray, asked for nothing else, then demands of everybody
    before = dict(os.environ)
    os.environ.update(wanted)
    if ours:
        os.environ.pop("RAY_ADDRESS", None)  # it would be joined
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _explained_start(address: str | None) -> Iterator[None]:
    """Ray's ways of failing to start, one of which is a signal that it sends to its own process, as a sentence."""
    try:
        yield
    except (Exception, SystemExit) as error:
        reason = " ".join(str(error).split("\n")[0].split()).rstrip(".")
        if address is None:
            raise WorkersError(f"Ray could not be started on this machine ({reason}). Leave out workers=.") from error
        if address == "auto":
            reason = "none runs on this machine"
        raise WorkersError(_no_cluster(address, reason if isinstance(error, Exception) else "no answer")) from error


def _no_cluster(address: str, reason: str) -> str:
    return (
        f"There is no Ray cluster at {address} ({reason}). Start one with: ray start --head, and give the address that "
        "it prints; or leave out the address to use this machine alone."
    )


def _refuse_unreachable(address: str) -> None:
    """Ray itself would wait for minutes where nothing answers, or something else does."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), CONNECT) as link:
            if os.environ.get("RAY_USE_TLS", "0") != "0":
                return
            link.settimeout(CONNECT)
            link.sendall(GREETING)
            answer = link.recv(9)
    except (OSError, OverflowError) as error:
        raise WorkersError(_no_cluster(address, getattr(error, "strerror", None) or str(error))) from error
    if answer[3:4] != bytes([SETTINGS]):
        raise WorkersError(_no_cluster(address, "something else answers there"))


def _hush(ray: Any) -> None:
    """Ray prints to standard output that a worker was lost, between the answers of alu predict; we say what matters."""
    inner = getattr(getattr(ray, "_private", None), "worker", None)
    if inner is not None and hasattr(inner, "print_to_stdstream"):
        inner.print_to_stdstream = lambda *_, **__: None
