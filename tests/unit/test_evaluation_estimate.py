"""Time estimates, against evaluations that take a known part of it."""

from __future__ import annotations

import time
from itertools import count
from typing import Any

import pytest
from torch import Tensor

from alu import Defense
from alu.attacks import PGD, AutoAttack
from alu.evaluation.estimate import Duration, estimate, in_words, shortened
from alu.evaluation.evaluate import prepare, run
from alu.evaluation.suite import Entry
from alu.purifiers import Blur
from alu.threat import ThreatModel
from tests.toys import Toy, toy_data, toy_defense


@pytest.mark.parametrize(
    ("seconds", "words"), [(1, "1 minute"), (119, "2 minutes"), (7000, "117 minutes"), (3600 * 146, "146 hours")]
)
def test_durations_are_rounded_to_minutes_or_hours(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


def test_both_estimates_are_printed() -> None:
    text = str(Duration(600, 36000))
    assert "about 10 minutes if every image is broken" in text
    assert "up to 10 hours if no image is ever broken" in text


def test_an_evaluation_takes_a_time_between_the_two() -> None:
    defense, data = toy_defense(), toy_data(12)
    threat = ThreatModel("Linf", 0.15)
    prepared = prepare(defense, data, None, threat, "adaptive", "standard")
    expected = estimate(prepared)
    assert expected.lower < expected.upper
    started = time.perf_counter()
    run(prepared, diagnostics=False)
    seconds = time.perf_counter() - started
    # A toy's time is overhead more than work, which a batch of two overstates: only the upper one is a bound.
    assert 0.02 * expected.lower < seconds < 1.5 * expected.upper


def test_a_shard_takes_its_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count()
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks))
    whole, half = (
        estimate(prepare(Toy(), toy_data(8), None, ThreatModel(), "paper", "quick", block_size=2, shard=shard))
        for shard in ((0, 1), (1, 2))
    )
    assert (whole.lower, whole.upper) == (2 * half.lower, 2 * half.upper)


class Broken(PGD):
    """Fails on every model."""

    def run(self, *_: Any) -> Tensor:
        raise RuntimeError("sides do not fit")


def test_an_attack_that_crashes_takes_no_time_and_no_traceback() -> None:
    extra = (Entry("broken", "adaptive", "", Broken(), whole=True),)
    prepared = prepare(Toy(), toy_data(4), None, ThreatModel(), "paper", "quick", extra=extra)
    assert estimate(prepared).upper > 0


class Counted(Toy):
    """Counts the images it is asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def forward(self, images: Tensor) -> Tensor:
        self.asked += len(images)
        return super().forward(images)


def test_the_attacks_on_the_bare_classifier_are_counted() -> None:
    asked = {}
    for bare in (False, True):
        model = Counted()
        defense = Defense(model, Blur(0.5), rule="purified")
        prepared = prepare(defense, toy_data(8), None, ThreatModel(), "paper", "quick", bare=bare)
        before = model.asked
        estimate(prepared)
        asked[bare] = model.asked - before
    alone = Counted()
    prepared = prepare(alone, toy_data(8), None, ThreatModel(), "paper", "quick")
    before = alone.asked
    estimate(prepared)
    assert asked[True] - asked[False] == alone.asked - before > 0


def test_a_shortened_attack_does_its_share() -> None:
    short, factor = shortened(PGD(steps=40))
    assert (short.steps, factor) == (1, 40)
    short, factor = shortened(AutoAttack())
    assert (short.steps, factor) == (1, 3600)
