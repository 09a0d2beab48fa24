"""The time an evaluation is said to take, against evaluations that take a known part of it."""

from __future__ import annotations

import time

import pytest
from torch import Tensor

from alu import Defense
from alu.evaluation.estimate import Estimate, duration, estimate, shortened
from alu.evaluation.run import evaluate
from alu.purifiers import Blur
from alu.threat import ThreatModel
from tests.unit.toys import Toy, toy_data, toy_defense


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
        estimate(Defense(model, Blur(0.5), rule="purified"), toy_data(8), ThreatModel(), "paper", "quick", 0, bare=bare)
        asked[bare] = model.asked
    alone = Counted()
    estimate(alone, toy_data(8), ThreatModel(), "paper", "quick", 0)
    # Less what is asked once for both: two images, for the number of classes.
    assert asked[True] - asked[False] == alone.asked - 2


def test_a_shortened_attack_does_its_share() -> None:
    from alu.attacks import PGD, AutoAttack

    short, factor = shortened(PGD(steps=40))
    assert (short.steps, factor) == (1, 40)
    short, factor = shortened(AutoAttack())
    assert (short.steps, factor) == (1, 3600)
