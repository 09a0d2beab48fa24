"""The time an evaluation is said to take, against evaluations that take a known part of it."""

from __future__ import annotations

import time

import pytest

from alu.evaluation.estimate import Estimate, duration, estimate, shortened
from alu.evaluation.run import evaluate
from alu.threat import ThreatModel
from tests.unit.toys import toy_data, toy_defense


@pytest.mark.parametrize(
    ("seconds", "said"), [(1, "1 minute"), (119, "2 minutes"), (7000, "117 minutes"), (3600 * 146, "146 hours")]
)
def test_durations_are_said_as_one_would(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_both_ends_are_said() -> None:
    text = str(Estimate(600, 36000))
    assert "about 10 minutes if every image falls" in text
    assert "up to 10 hours if none ever falls" in text


def test_an_evaluation_ends_between_the_two() -> None:
    defense, data = toy_defense(), toy_data(12)
    threat = ThreatModel("Linf", 0.15)
    said = estimate(defense, data, threat, "adaptive", "standard", 0)
    assert said.least < said.most
    started = time.perf_counter()
    evaluate(defense, data, threat, "adaptive", "standard", diagnostics=False)
    seconds = time.perf_counter() - started
    # A toy's time is overhead more than work, which a batch of two overstates: only the upper end is a bound.
    assert 0.02 * said.least < seconds < 1.5 * said.most


def test_a_shortened_attack_does_its_share() -> None:
    from alu.attacks import PGD, AutoAttack

    short, factor = shortened(PGD(steps=40))
    assert (short.steps, factor) == (1, 40)
    short, factor = shortened(AutoAttack())
    assert (short.steps, factor) == (1, 3600)
