"""Batching without waiting: take what is queued, run it, take what came meanwhile. One thread owns the engine."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from alu.decoding import Pixels
from alu.progress import at_once
from alu.serve.engine import Answers, Engine
from alu.serve.problems import Refused

WARM_UPS = 2
"""Batches that are run of each size before the first request: the first one of a size is slow."""
HELD = 0.05
"""Seconds that pictures wait for `go()`, at most: nothing that goes wrong elsewhere may leave them waiting."""
REMEMBERED = 0.9
"""How much the older batches count when the time of the next is estimated."""


@dataclass(eq=False)
class Ticket:
    """What a request holds while it is in the queue: room for so many pictures; dropped when nobody waits for it."""

    room: int = 0
    dropped: bool = False


Owner = TypeVar("Owner", bound=Ticket)


@dataclass(eq=False)
class Item(Generic[Owner]):
    """One picture in the queue, with the request that it belongs to and its place there."""

    pixels: Pixels
    owner: Owner
    place: int
    purified: bool = False
    since: float = field(default_factory=time.perf_counter)


@dataclass(frozen=True)
class Batch(Generic[Owner]):
    """Items that were answered together: row i of `answers` is item i's; `error` where the engine failed."""

    items: list[Item[Owner]]
    answers: Answers | None
    error: Exception | None
    started: float
    seconds: float


class StoppedError(Exception):
    """Raised by a `load` that was told to end before it was done."""


class Pace:
    """How long batches take: `fixed` seconds for each and `each` for every picture in it, kept up to date."""

    def __init__(self) -> None:
        self.fixed = self.each = 0.0

    def begin(self, one: float, most: float, size: int) -> None:
        """From the times of a batch of one picture and of one of `size`."""
        self.each = max(0.0, (most - one) / (size - 1)) if size > 1 else one
        self.fixed = max(0.0, one - self.each)

    def observe(self, size: int, seconds: float) -> None:
        """Scale both parts towards what a batch took; their proportion is the engine's."""
        expected = self.fixed + size * self.each
        if expected > 0.0:
            factor = REMEMBERED + (1.0 - REMEMBERED) * min(seconds / expected, 100.0)
            self.fixed, self.each = factor * self.fixed, factor * self.each

    def wait(self, pictures: int, size: int) -> float:
        """Seconds that so many pictures take in batches of `size`."""
        return math.ceil(pictures / size) * self.fixed + pictures * self.each


class Batcher(Generic[Owner]):
    """A bounded queue and the thread that empties it.

    Parameters
    ----------
    load
        Makes the engine, in the thread that will use it.
    done
        Called in that thread with every batch that was answered or failed.
    most
        Pictures in a batch, at most; fewer where they are large.
    capacity
        Pictures that may be admitted and not yet answered.
    patience
        Seconds that a picture may have to wait, as far as can be foreseen; more of them are not admitted.
    """

    def __init__(
        self,
        load: Callable[[], Engine],
        done: Callable[[Batch[Owner]], None],
        most: int,
        capacity: int,
        patience: float,
    ) -> None:
        self._load, self._done, self.most, self.capacity, self.patience = load, done, most, capacity, patience
        self.engine: Engine | None = None
        self.failure: BaseException | None = None
        """Why the engine could not be loaded, or the thread ended."""
        self.loaded: Callable[[BaseException | None], None] = lambda failure: None
        """Called once the engine is there, or with the reason why it is not."""
        self.pace = Pace()
        self.admitted = 0
        self._queue: deque[Item[Owner]] = deque()
        self._going = False
        self._changed = threading.Condition()
        self.stopping = False
        """Whether the end has been asked for."""
        self._thread = threading.Thread(target=self._run, name="alu-engine", daemon=True)

    def start(self) -> None:
        """Begin to load."""
        self._thread.start()

    def stop(self) -> None:
        """Answer what was admitted, then end; a `load` that looks at `stopping` need not finish."""
        with self._changed:
            self.stopping = True
            self._changed.notify_all()
        self._thread.join()

    @property
    def full(self) -> bool:
        """Whether one more picture would be refused."""
        return self.admitted >= self.capacity or self.pace.wait(self.admitted, self.most) > self.patience

    def refusal(self) -> Refused:
        """What to say when no more are admitted."""
        seconds = self.pace.wait(self.admitted, self.most)
        return Refused(
            "queue-full",
            f"{self.admitted} pictures are waiting, about {seconds:.1f} s of work. Try again later.",
            retry_after=max(1, math.ceil(seconds)),
        )

    def admit(self, ticket: Ticket, count: int) -> None:
        """Make room for so many pictures of a request, or raise `Refused`; `leave` gives it back."""
        with self._changed:
            if ticket.dropped:
                raise Refused("timeout", "The request was given up before its pictures were read.")
            others = self.admitted - ticket.room  # a request does not wait for itself
            if others and (self.admitted + count > self.capacity or self.pace.wait(others, self.most) > self.patience):
                raise self.refusal()
            self.admitted += count
            ticket.room += count

    def leave(self, ticket: Ticket) -> None:
        """A request was answered or given up; of what it has in the queue, nothing is computed any more."""
        with self._changed:
            self.admitted -= ticket.room
            ticket.room, ticket.dropped = 0, True

    def put(self, items: Iterable[Item[Owner]], go: bool = True) -> None:
        """Queue pictures that were admitted; unless `go`, a batch that they do not fill begins with `go()`."""
        with self._changed:
            self._queue.extend(items)
            if go or len(self._queue) >= self.most:
                self._begin()

    def go(self) -> None:
        """Everything that has arrived is in the queue: a batch may begin."""
        with self._changed:
            self._begin()

    def hold(self) -> None:
        """Answers are being sent: the next batch begins with `go()`, when it is full, or after `HELD` seconds."""
        with self._changed:
            self._going = False

    def _begin(self) -> None:
        self._going = True
        self._changed.notify()

    def _run(self) -> None:
        try:
            engine = self._load()
            self.most = at_once(engine.shape, self.most)
            self._warm_up(engine)
            self.engine = engine
        except BaseException as error:
            self.failure = error
            self.loaded(error)
            return
        self.loaded(None)
        while items := self._take():
            if wanted := [item for item in items if not item.owner.dropped]:
                try:
                    self._answer(engine, wanted)
                except Exception as error:  # of `done`: those who wait for this batch are not told, but others must be
                    sys.stderr.write(f"alu: a batch could not be handed over ({type(error).__name__}: {error}).\n")

    def _warm_up(self, engine: Engine) -> None:
        times = []
        for size in (1, self.most):
            blank = np.zeros((size, *engine.shape), np.uint8)
            taken = []
            for _ in range(WARM_UPS):
                start = time.perf_counter()
                engine.decide(blank)
                taken.append(time.perf_counter() - start)
            times.append(min(taken))
        self.pace.begin(times[0], times[1], self.most)

    def _take(self) -> list[Item[Owner]]:
        """What is queued, up to a batch; waits for it. Empty at the end."""
        with self._changed:
            while not self._queue and not self.stopping:
                self._changed.wait()
            self._changed.wait_for(lambda: self._going or self.stopping or len(self._queue) >= self.most, HELD)
            self._going = False
            return [self._queue.popleft() for _ in range(min(len(self._queue), self.most))]

    def _answer(self, engine: Engine, items: list[Item[Owner]]) -> None:
        start = time.perf_counter()
        try:
            answers = engine.decide(np.stack([item.pixels for item in items]), any(item.purified for item in items))
        except Exception as error:
            if len(items) > 1:  # one picture must not spoil the answers to those it was batched with
                for item in items:
                    self._answer(engine, [item])
                return
            self._done(Batch(items, None, error, start, time.perf_counter() - start))
            return
        seconds = time.perf_counter() - start
        self.pace.observe(len(items), seconds)
        self._done(Batch(items, answers, None, start, seconds))
