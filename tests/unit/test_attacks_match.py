"""Match: logits and features of a guide."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from alu.attacks.adaptive.base import GoalSearch
from alu.attacks.adaptive.match import LookAlike, features
from alu.attacks.adaptive.view import Level
from alu.attacks.copies import draws_of
from alu.attacks.goals import Goal
from tests.toys import quick_attack, random_defense, toy_data, toy_defense


def test_match_moves_both_logits_towards_the_guide() -> None:
    defense, data = toy_defense("abstain"), toy_data(12)
    goal = LookAlike(
        defense, data.images[:4], data.labels[:4], level=Level(), rank=0, guides=data.images, guide_labels=data.labels
    )
    assert not bool((goal.logits.argmax(1) == data.labels[:4]).any())
    attack = quick_attack("Match", eps=0.3, steps=10, guides=data.images, guide_labels=data.labels, targets=1)
    start, end = goal.loss(data.images[:4]), goal.loss(attack(defense, data.images[:4], data.labels[:4]))
    assert bool((end > start).all())


def test_match_wants_both_logits_and_both_features() -> None:
    defense, data = toy_defense(), toy_data(12)
    goal = LookAlike(
        defense, data.images, data.labels, level=Level("bpda"), rank=0, guides=data.images, guide_labels=data.labels
    )
    with features(defense.classifier) as inner:
        seen = defense.evidence(data.images)
    assert goal.features is not None
    logits = sum((part - goal.logits).square().sum(1) for part in (seen.pre_logits, seen.post_logits))
    spread = sum((part - goal.features).square().sum(1) for part in inner)
    assert len(inner) == 2, "before and after"
    scale = goal.logits.square().sum(1) / goal.features.square().sum(1)
    torch.testing.assert_close(-goal.loss(data.images), logits + scale * spread)
    other = LookAlike(
        defense, data.images, data.labels, level=Level("bpda"), rank=0, guides=data.images, guide_labels=data.labels
    )
    other.features = None
    torch.testing.assert_close(-other.loss(data.images), logits)


def test_draws_aim_at_the_same_class() -> None:
    defense, data = random_defense("abstain"), toy_data(40)
    settings: dict[str, Any] = {"level": Level("bpda"), "rank": 0, "guides": data.images, "guide_labels": data.labels}
    goals = [LookAlike(drawn, data.images, data.labels, **settings) for drawn in draws_of(defense, 4)]
    assert any(not torch.equal(goal.logits, goals[0].logits) for goal in goals[1:]), "left alone they differ"
    wanted = []

    class Watched(LookAlike):
        def loss(self, images: Tensor) -> Tensor:
            wanted.append(self.logits)
            return super().loss(images)

    def make(model: Any, images: Tensor, labels: Tensor) -> Goal:
        return Watched(model, images, labels, **settings)

    GoalSearch(make, "test", eps=0.05, steps=1, draws=4)(defense, data.images, data.labels)
    assert len(wanted) == 4
    assert all(torch.equal(each, wanted[0]) for each in wanted)
