"""Denial: on a linear classifier it is known which pictures can be silenced."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import alu
from alu.attacks.adaptive import Denial
from alu.attacks.adaptive.denial import denied
from alu.decision import Evidence
from alu.detectors import Confidence, Detector, Neighbourhood
from tests.linear import Linear, linear_data

RADIUS = 2


@pytest.mark.parametrize("eps", [1, 2, 4])
@pytest.mark.parametrize("budget", ["quick", "standard"])
def test_whatever_has_another_answer_within_eps_and_radius_can_be_silenced(eps: int, budget: str) -> None:
    data = linear_data(60)
    defense = alu.Defense(Linear(), detector=Neighbourhood(RADIUS / 255), rule="abstain")
    attack = Denial(eps=eps / 255, steps=20, budget=budget)  # type: ignore[arg-type]
    attacked = attack(defense, data.images, data.labels)
    assert bool(attack.threat.contains(attacked, data.images).all())
    left = ~denied(defense, attacked, data.labels)
    assert torch.equal(left, data.right & (data.distance > eps + RADIUS))


def test_a_defence_without_a_search_is_silenced_by_its_score() -> None:
    data, eps = linear_data(), 2
    defense = alu.Defense(Linear(), detector=Confidence(false_alarm=0.25), rule="abstain").calibrate(data.images)
    refused = float(data.distance[~defense.decide(data.images).accepted].max())
    attacked = Denial(eps=eps / 255, steps=20, budget="quick")(defense, data.images, data.labels)
    left = ~denied(defense, attacked, data.labels)
    exact = data.right & (data.distance > refused + eps)
    assert int((left != exact).sum()) <= 2, "the threshold is one of the scores, and rounding may pass it"


class Brightness(Detector):
    """Flags bright pictures, whatever they show."""

    def score(self, evidence: Evidence) -> Tensor:
        return evidence.images.mean((1, 2, 3))


def test_a_score_that_has_nothing_to_do_with_the_answer_is_raised_too() -> None:
    data, eps = linear_data(40), 2
    defense = alu.Defense(Linear(), detector=Brightness(0.25), rule="abstain").calibrate(data.images)
    attacked = Denial(eps=eps / 255, steps=20, budget="quick")(defense, data.images, data.labels)
    left = ~denied(defense, attacked, data.labels)
    assert defense.detector is not None
    dark = data.images.mean((1, 2, 3)) + eps / 255 <= float(defense.detector.threshold_)
    assert torch.equal(left, data.right & (data.distance > eps) & dark)
    bright = data.right & (data.distance > eps) & ~dark & defense.decide(data.images).accepted
    assert bool(bright.any()), "some are silenced by their score alone"
