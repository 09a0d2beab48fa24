"""Confident and the attacks on a search: each reaches the known optimum of a linear classifier; a weak search falls."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

import alu
from alu.attacks import adaptive, fooled
from alu.attacks.adaptive.confident import Probable
from alu.attacks.adaptive.view import Level
from alu.detectors import Confidence, Neighbourhood
from alu.evaluation.obligations import unmet
from alu.purifiers import Blur
from tests.linear import RADII, Linear, linear_data
from tests.toys import toy_defense, toy_images

EPS = 8
AROUND = ("MinMax", "StraightThrough", "UnrolledSearch", "Stall")


def left(defense: alu.Defense, attack: Any) -> float:
    """RAR: the share that is right and answered when clean, and not answered wrongly under the attack."""
    data = linear_data()
    decision = defense.decide(data.images)
    clean = decision.accepted & (decision.label == data.labels)
    attacked = attack(defense, data.images, data.labels)
    return float((clean & ~fooled(defense, attacked, data.labels)).float().mean())


@pytest.mark.parametrize(
    ("name", "radius"), [("Stealth", 2), *product(["Confident", "Direct", *AROUND], RADII)]
)  # fmt: skip
def test_each_attack_reaches_what_is_possible(name: str, radius: int) -> None:
    data = linear_data()
    exact = float((data.right & (data.distance > max(radius, EPS - radius))).float().mean())
    defense = alu.Defense(Linear(), detector=Neighbourhood(radius / 255), rule="abstain")
    attack = getattr(adaptive, name)(eps=EPS / 255, steps=20, budget="quick")
    assert abs(left(defense, attack) - exact) <= 0.01


class WeakSearch(Neighbourhood):
    """A check that looks the wrong way, three times: it refuses next to nothing."""

    def __init__(self) -> None:
        super().__init__(radius=4 / 255, steps=3)

    @staticmethod
    def _ascent(logits: Tensor, at: Tensor, labels: Tensor, target: Tensor | None) -> Tensor:
        return -Neighbourhood._ascent(logits, at, labels, target)


def test_stall_breaks_a_weak_search_to_the_floor() -> None:
    data = linear_data()
    # Nothing is refused, so the classifier alone is the floor.
    floor = float((data.right & (data.distance > EPS)).float().mean())
    defense = alu.Defense(Linear(), detector=WeakSearch(), rule="abstain")
    assert bool(defense.decide(data.images).accepted.float().mean() > 0.95)
    assert abs(left(defense, adaptive.Stall(eps=EPS / 255, steps=20, budget="quick")) - floor) <= 0.01


def test_confident_is_the_strongest_attack_on_confidence() -> None:
    data = linear_data()
    defense = alu.Defense(Linear(), detector=Confidence(false_alarm=0.25), rule="abstain").calibrate(data.images)
    confidence = defense.decide(data.images)
    # A wrong answer at distance d beyond the boundary is as sure as a right one at that distance.
    refused = float(data.distance[~confidence.accepted].max())
    exact = float((data.right & confidence.accepted & (data.distance > EPS - refused)).float().mean())
    attack = adaptive.Confident(eps=EPS / 255, steps=20, budget="quick")
    assert abs(left(defense, attack) - exact) <= 0.01


@pytest.mark.parametrize("name", AROUND)
def test_attacks_on_a_search_need_one(name: str) -> None:
    data = linear_data(4)
    defense = alu.Defense(Linear(), detector=Confidence(false_alarm=0.25), rule="abstain").calibrate(data.images)
    with pytest.raises(alu.AluError, match=f"{name} aims at a detector's search"):
        getattr(adaptive, name)()(defense, data.images, data.labels)


def test_the_suite_obliges_them() -> None:
    defense = alu.Defense(Linear(), detector=Neighbourhood(), rule="abstain")
    assert "no attack that aims at the search around the image" in unmet(defense.traits, [])
    data = linear_data(2)
    result = alu.evaluate(defense, data.images, data.labels, suite="adaptive", budget="quick", diagnostics=False)
    names = [record.name for record in result.attacks]
    assert {"min-max", "confident", "straight-through", "unrolled search", "stall"} <= set(names)
    assert [record.failed for record in result.attacks if record.failed] == []
    assert result.unmet == []


def test_confident_aims_at_what_is_answered() -> None:
    # The answer comes from the purified image: an attack on the logits before it would be a weaker one.
    defense, images = toy_defense("abstain", purifier=Blur(1.5)), toy_images(4)
    labels = defense.decide(images).label
    goal = Probable(defense, images, labels, level=Level(), rank=0)
    after = defense.evidence(images).post_logits.log_softmax(1)
    assert torch.allclose(goal.loss(images), after.gather(1, goal.target[:, None]).squeeze(1), atol=1e-5)
    before = defense.logits(images).log_softmax(1).gather(1, goal.target[:, None]).squeeze(1)
    assert not torch.allclose(goal.loss(images), before, atol=1e-3)
