"""Time estimates, against evaluations that take a known part of it."""

from __future__ import annotations

import time
from itertools import count
from typing import Any

import pytest
from torch import Tensor

from alu import Defense
from alu.attacks import PGD, AutoAttack
from alu.evaluation import estimate as estimate_file
from alu.evaluation.estimate import Duration, estimate, in_words, of_attacks, shortened
from alu.evaluation.evaluate import prepare, run
from alu.evaluation.suite import Entry
from alu.purifiers import Blur
from alu.threat import ThreatModel
from tests.toys import Counted, Toy, toy_data, toy_defense


@pytest.mark.parametrize(
    ("seconds", "words"), [(1, "1 minute"), (119, "2 minutes"), (7000, "117 minutes"), (3600 * 146, "146 hours")]
)
def test_durations_are_rounded_to_minutes_or_hours(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


def test_all_estimates_are_printed() -> None:
    text = str(Duration(600, 1800, 36000))
    assert text.startswith("about 30 minutes, judging by the first images")
    assert "10 minutes if every image is broken" in text
    assert "up to 10 hours if no image is ever broken" in text


def test_an_evaluation_takes_a_time_between_the_two() -> None:
    defense, data = toy_defense(), toy_data(12)
    threat = ThreatModel("Linf", 0.15)
    prepared = prepare(defense, data, None, threat, "adaptive", "standard")
    expected = estimate(prepared)
    assert expected.lower <= expected.likely < expected.upper
    started = time.perf_counter()
    run(prepared, diagnostics=False)
    seconds = time.perf_counter() - started
    # A toy's time is overhead more than work, which a batch of two overstates: only the upper one is a bound.
    assert 0.02 * expected.lower < seconds < 1.5 * expected.upper


def test_a_shard_takes_its_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count()
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks))
    whole, half = (
        of_attacks(prepare(Toy(), toy_data(8), None, ThreatModel(), "paper", "quick", block_size=2, shard=shard))
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
    of_attacks(prepared)
    assert asked[True] - asked[False] == alone.asked - before > 0


@pytest.mark.parametrize("rule", ["alu", "abstain"])
def test_whatever_an_evaluation_does_is_in_the_estimate(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Harmless changes, checks of itself, who is silenced, refusal by confidence: what is left out takes no time."""
    prepared = prepare(toy_defense(rule), toy_data(16), None, ThreatModel("Linf", 0.05), "adaptive", "quick")
    parts = {"_of_the_rest": True, "_of_curves": rule == "abstain", "_of_rival": rule == "abstain"}
    for name, there in parts.items():
        found = getattr(estimate_file, name)

        def noted(*arguments: Any, found: Any = found, name: str = name, there: bool = there) -> Any:
            spent = found(*arguments)
            seconds = spent if isinstance(spent, float) else spent.likely
            assert (seconds > 0) == there, name
            return spent

        monkeypatch.setattr(estimate_file, name, noted)
    assert estimate(prepared).likely > 0


def test_what_the_first_images_show_counts() -> None:
    """Where they fall to the first attack, the later ones cost nothing; where they stand, all of it is to come."""
    fast = prepare(toy_defense(), toy_data(16), None, ThreatModel("Linf", 0.3), "adaptive", "quick", bare=False)
    slow = prepare(toy_defense(), toy_data(16), None, ThreatModel("Linf", 0.001), "adaptive", "quick", bare=False)
    falls, stands = (of_attacks(prepared) for prepared in (fast, slow))
    assert falls.likely < 0.3 * falls.upper
    assert stands.likely > 0.3 * stands.upper


def test_a_shortened_attack_does_its_share() -> None:
    short, factor = shortened(PGD(steps=40))
    assert (short.steps, factor) == (1, 40)
    short, factor = shortened(AutoAttack())
    assert (short.steps, factor) == (1, 3600)
