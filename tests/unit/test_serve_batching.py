"""Batches form from what is queued, nobody waits for more, and the queue is bounded."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from alu.decoding import Pixels
from alu.errors import UsageError
from alu.serve.batching import Batch, Batcher, Item, Pace, Ticket
from alu.serve.engine import Engine
from alu.serve.problems import Refused
from tests.serving import Brightness, wait_for


class Gatekeeper:
    """Holds every batch until it is let through."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.waiting = 0

    def __call__(self, pixels: Pixels) -> None:
        self.waiting += 1
        assert self.open.wait(20)


def batcher(
    engine: Engine, most: int = 4, capacity: int = 100, patience: float = 100.0
) -> tuple[Batcher[Ticket], list[Batch[Ticket]]]:
    done: list[Batch[Ticket]] = []
    found: Batcher[Ticket] = Batcher(lambda: engine, done.append, most, capacity, patience)
    found.start()
    wait_for(lambda: found.engine is not None)
    return found, done


def items(count: int, owner: Ticket, first: int = 0) -> list[Item[Ticket]]:
    return [Item(np.full((3, 8, 8), first + number, np.uint8), owner, number) for number in range(count)]


def test_it_takes_what_is_queued_and_then_what_came_meanwhile() -> None:
    gate, engine = Gatekeeper(), Brightness()
    found, done = batcher(engine)
    engine.before, engine.asked = gate, []
    owner = Ticket()
    found.put(items(1, owner))  # a lone picture does not wait for others
    wait_for(lambda: gate.waiting == 1)
    found.put(items(6, owner))
    gate.open.set()
    wait_for(lambda: len(done) == 3)
    found.stop()
    assert engine.asked == [1, 4, 2]
    assert [len(batch.items) for batch in done] == [1, 4, 2]
    assert all(batch.started >= item.since for batch in done for item in batch.items)


def test_a_batch_begins_when_it_is_told_to_or_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alu.serve.batching.HELD", 60.0)
    engine = Brightness()
    found, done = batcher(engine)
    engine.asked = []
    owner = Ticket()
    found.put(items(2, owner), go=False)
    found.put(items(1, owner), go=False)
    time.sleep(0.1)
    assert not done
    found.go()
    wait_for(lambda: engine.asked == [3])
    found.put(items(4, owner), go=False)
    wait_for(lambda: engine.asked == [3, 4])
    found.stop()


def test_what_came_meanwhile_is_held_until_the_answers_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alu.serve.batching.HELD", 60.0)
    gate, engine, done = Gatekeeper(), Brightness(), list[int]()

    def hand_over(batch: Batch[Ticket]) -> None:
        done.append(len(batch.items))
        found.hold()

    found: Batcher[Ticket] = Batcher(lambda: engine, hand_over, 4, 100, 100.0)
    found.start()
    wait_for(lambda: found.engine is not None)
    engine.before = gate
    found.put(items(1, Ticket()))
    wait_for(lambda: gate.waiting == 1)
    found.put(items(1, Ticket()))
    gate.open.set()
    wait_for(lambda: done == [1])
    time.sleep(0.1)
    found.put(items(1, Ticket()), go=False)
    time.sleep(0.1)
    assert done == [1]
    found.go()
    wait_for(lambda: done == [1, 2])
    found.stop()


def test_nothing_is_held_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, done = Brightness(), list[int]()
    gate = Gatekeeper()

    def hand_over(batch: Batch[Ticket]) -> None:
        done.append(len(batch.items))
        found.hold()  # and nobody says go

    found: Batcher[Ticket] = Batcher(lambda: engine, hand_over, 4, 100, 100.0)
    found.start()
    wait_for(lambda: found.engine is not None)
    engine.before = gate
    found.put(items(1, Ticket()))
    wait_for(lambda: gate.waiting == 1)
    found.put(items(2, Ticket()), go=False)
    gate.open.set()
    wait_for(lambda: done == [1, 2], 5)
    found.stop()


def test_a_lone_picture_is_answered_at_once() -> None:
    found, done = batcher(Brightness())
    start = time.perf_counter()
    found.put(items(1, Ticket()))
    wait_for(lambda: done)
    assert time.perf_counter() - start < 5.0
    found.stop()


def test_each_item_gets_its_own_answer_and_everything_is_answered_before_the_end() -> None:
    found, done = batcher(Brightness())
    owner = Ticket()
    found.put(items(50, owner))
    found.stop()
    answered = [
        (item.place, float(batch.answers.score[row]))
        for batch in done
        if batch.answers
        for row, item in enumerate(batch.items)
    ]
    assert [place for place, _ in answered] == list(range(50))
    assert [score for _, score in answered] == pytest.approx([number / 255 for number in range(50)], abs=1e-6)


def test_one_picture_that_fails_does_not_spoil_the_others() -> None:
    def fail(pixels: Pixels) -> None:
        if (pixels[:, 0, 0, 0] == 3).any():
            raise ValueError("three")

    engine = Brightness()
    found, done = batcher(engine)
    engine.before = fail
    found.put(items(8, Ticket()))
    found.stop()
    failed = [batch for batch in done if batch.answers is None]
    assert [[item.place for item in batch.items] for batch in failed] == [[3]]
    assert str(failed[0].error) == "three"
    assert sorted(item.place for batch in done if batch.answers is not None for item in batch.items) == [
        0,
        1,
        2,
        4,
        5,
        6,
        7,
    ]


def test_a_batch_that_cannot_be_handed_over_does_not_end_the_thread(capsys: pytest.CaptureFixture[str]) -> None:
    done: list[int] = []

    def hand_over(batch: Batch[Ticket]) -> None:
        done.append(len(batch.items))
        if len(done) == 1:
            raise RuntimeError("no room")

    found: Batcher[Ticket] = Batcher(Brightness, hand_over, 4, 9, 9.0)
    found.start()
    for count in (1, 2):
        found.put(items(count, Ticket()))
        wait_for(lambda count=count: len(done) == count)
    found.stop()
    assert done == [1, 2]
    assert "could not be handed over (RuntimeError: no room)" in capsys.readouterr().err


def test_what_nobody_waits_for_is_not_computed() -> None:
    gate, engine = Gatekeeper(), Brightness()
    found, done = batcher(engine)
    engine.before, engine.asked = gate, []
    found.put(items(1, Ticket()))
    wait_for(lambda: gate.waiting == 1)
    left, stays = Ticket(), Ticket()
    found.put([*items(2, left), *items(1, stays)])
    found.leave(left)
    gate.open.set()
    found.stop()
    assert engine.asked == [1, 1]
    assert [batch.items[0].owner for batch in done[1:]] == [stays]


def test_the_queue_is_bounded_and_room_is_given_back() -> None:
    found, _ = batcher(Brightness(), capacity=5)
    first, second, third = Ticket(), Ticket(), Ticket()
    found.admit(first, 3)
    found.admit(second, 2)
    assert found.full
    with pytest.raises(Refused, match="queue-full") as refused:
        found.admit(third, 1)
    assert (refused.value.status, refused.value.retry_after) == (503, 1)
    found.leave(first)
    found.leave(first)
    assert (found.admitted, found.full) == (2, False)
    with pytest.raises(Refused, match="timeout"):
        found.admit(first, 1)
    found.admit(third, 3)
    with pytest.raises(Refused, match="queue-full"):
        found.admit(Ticket(), 1)
    found.leave(second)
    found.leave(third)
    assert found.admitted == 0
    found.admit(Ticket(), 9)  # alone, it waits for nobody
    found.stop()


def test_pictures_that_would_wait_too_long_are_not_admitted() -> None:
    found, _ = batcher(Brightness(), most=10, patience=0.5)
    found.pace.fixed, found.pace.each = 0.1, 0.01
    # Three batches: 0.3 s and 0.01 s for each picture; the next would come after more than half a second.
    for _ in range(21):
        found.admit(Ticket(), 1)
    with pytest.raises(Refused, match="queue-full") as refused:
        found.admit(Ticket(), 1)
    assert refused.value.retry_after == 1
    found.stop()


def test_pace_is_that_of_two_sizes_and_follows_what_is_seen() -> None:
    pace = Pace()
    pace.begin(one=0.03, most=0.07, size=5)
    assert (pace.fixed, pace.each) == (pytest.approx(0.02), pytest.approx(0.01))
    assert pace.wait(7, 5) == pytest.approx(2 * 0.02 + 7 * 0.01)
    for _ in range(200):
        pace.observe(5, 0.14)
    assert (pace.fixed, pace.each) == (pytest.approx(0.04, rel=1e-3), pytest.approx(0.02, rel=1e-3))
    pace.begin(one=0.03, most=0.01, size=5)
    assert pace.wait(1, 5) == pytest.approx(0.03)
    single = Pace()
    single.begin(one=0.03, most=0.03, size=1)
    assert single.wait(4, 1) == pytest.approx(0.12)


def test_large_pictures_are_taken_fewer_at_once() -> None:
    engine = Brightness()
    engine.shape = (3, 128, 128)
    found, _ = batcher(engine, most=64)
    assert found.most == 16
    found.stop()


def test_an_engine_that_cannot_be_loaded_is_told() -> None:
    def load() -> Engine:
        raise UsageError("no such thing")

    told: list[BaseException | None] = []
    found: Batcher[Ticket] = Batcher(load, lambda batch: None, 4, 4, 1.0)
    found.loaded = told.append
    found.start()
    found.stop()
    assert str(found.failure) == "no such thing"
    assert told == [found.failure]
