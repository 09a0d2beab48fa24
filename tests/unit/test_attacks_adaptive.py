"""What every adaptive attack promises, and how its tries follow each other."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from alu.attacks import PGD
from alu.attacks.adaptive import Direct, Stealth
from alu.attacks.adaptive.base import AdaptiveAttack, GoalSearch
from alu.attacks.adaptive.soft import SoftOutput
from alu.attacks.adaptive.view import Level
from alu.attacks.base import Attack
from alu.attacks.copies import redrawn
from alu.attacks.goals import Goal, fooled
from alu.errors import UsageError
from alu.threat import ThreatModel
from tests.toys import Toy, quick_attack, random_defense, toy_asymmetric, toy_data, toy_defense, toy_images

EVERY = (
    "Boost",
    "Confident",
    "Decoy",
    "Direct",
    "Match",
    "Pattern",
    "Query",
    "Soft",
    "Stealth",
    "Trajectory",
    "Transfer",
)


READINGS = (
    ("alu", "input"), ("alu", "reconstruction"), ("purified", "input"), ("abstain", "input"), ("graded", "input"),
)  # fmt: skip


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize(("rule", "reference"), READINGS)
def test_every_attack_works_on_every_reading_and_stays_inside(name: str, rule: str, reference: str) -> None:
    defense, data = toy_defense(rule, reference), toy_data(6)
    state = torch.random.get_rng_state()
    attack = quick_attack(name)
    adversarial = attack(defense, data.images, data.labels)
    assert bool(ThreatModel("Linf", 0.15).contains(adversarial, data.images).all())
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(parameter.grad is None for parameter in defense.parameters())
    assert defense.grad_mode == "unrolled"


@pytest.mark.parametrize("name", EVERY)
def test_every_attack_works_where_features_are_purified(name: str) -> None:
    defense, images = toy_asymmetric("reconstruction"), toy_images(4)
    labels = defense.decide(images).label
    adversarial = quick_attack(name, steps=3)(defense, images, labels)
    assert bool(ThreatModel("Linf", 0.15).contains(adversarial, images).all())


@pytest.mark.parametrize("name", ["Boost", "Decoy", "Direct", "Pattern", "Stealth", "Trajectory"])
def test_an_image_does_not_depend_on_its_batch(name: str) -> None:
    defense, data = toy_defense("alu", "input"), toy_data(6)
    whole = quick_attack(name)(defense, data.images, data.labels)
    parts = quick_attack(name, batch_size=2)(defense, data.images, data.labels)
    assert float((whole - parts).abs().max()) <= 1e-5
    some = [4, 1]
    few = quick_attack(name)(defense, data.images[some], data.labels[some], numbers=some)
    assert float((whole[some] - few).abs().max()) <= 1e-5


@pytest.mark.parametrize(
    ("name", "rule", "reference"),
    [
        ("Boost", "alu", "input"),
        ("Decoy", "alu", "input"),
        ("Direct", "alu", "input"),
        ("Direct", "purified", "input"),
        ("Direct", "graded", "input"),
        ("Stealth", "graded", "input"),
        ("Soft", "graded", "input"),
        ("Stealth", "abstain", "input"),
        ("Soft", "alu", "input"),
        ("Trajectory", "alu", "reconstruction"),
        ("Transfer", "purified", "input"),
    ],
)
def test_in_a_large_ball_the_attack_breaks_what_it_is_meant_for(name: str, rule: str, reference: str) -> None:
    defense, data = toy_defense(rule, reference), toy_data(10)
    right = ~fooled(defense, data.images, data.labels)
    adversarial = quick_attack(name, eps=0.4, steps=20)(defense, data.images, data.labels)
    assert int(fooled(defense, adversarial, data.labels)[right].sum()) >= 0.8 * int(right.sum())


def test_a_plain_model_is_refused_with_what_to_use() -> None:
    data = toy_data(2)
    with pytest.raises(UsageError, match=r"Decoy attacks an alu.Defense.*Use PGD"):
        quick_attack("Decoy")(Toy(), data.images, data.labels)


class Passing(Goal):
    """Moves in one direction; succeeds at one step only, and has its highest loss at another."""

    def __init__(self, success_at: int, peak_at: int) -> None:
        super().__init__(Toy(), torch.zeros(1, dtype=torch.long))
        self.success_at, self.peak_at = success_at, peak_at

    def step(self, images: Tensor) -> Tensor:
        return ((images.flatten(1).mean(1) - 0.2) * 100).round()

    def loss(self, images: Tensor) -> Tensor:
        return -(self.step(images) - self.peak_at).abs()

    def ascent(self, images: Tensor, who: str) -> tuple[Tensor, Tensor]:
        return torch.ones_like(images), self.loss(images.detach())

    def reached(self, images: Tensor) -> Tensor:
        return self.step(images) == self.success_at


@pytest.mark.parametrize(
    ("success_at", "peak_at", "kept"),
    [(5, 1, True), (3, 3, True), (3, 1, False), (12, 12, True), (13, 1, False), (14, 14, True), (16, 0, True)],
)
def test_a_success_on_the_way_is_kept(success_at: int, peak_at: int, kept: bool) -> None:
    # Tested at steps 5, 10 and 15 and at the end: the current image, and the one with the highest loss since then.
    goal = Passing(success_at, peak_at)
    search = GoalSearch(
        lambda *_: goal, "test", eps=0.5, steps=16, step_size=0.01, keep="fooled", random_start=False, norm="Linf"
    )
    images = torch.full((1, 1, 2, 2), 0.2)
    assert bool(goal.reached(search(Toy(), images, goal.labels))) == kept


def test_gradients_of_a_random_defence_are_averaged_over_its_draws() -> None:
    defense, data = random_defense("abstain"), toy_data(4)
    attack = Stealth(eps=0.05, steps=2, budget="quick")
    attack(defense, data.images, data.labels)
    assert attack.averaged == 4
    search: Any = next(iter(attack.tries(defense)))
    assert search.draws == 4
    # The deployed draw alone first, which is sharper, and then the average.
    draws = [each.draws for each in attack.rounds(lambda: attack.tries(defense))]  # type: ignore[attr-defined]
    assert draws == [1] * 16 + [4] * 16
    goals = [search.goal(redrawn(defense, draw), data.images, data.labels) for draw in range(2)]
    scores = [goal.parts(data.images)[1] for goal in goals]
    assert not torch.equal(*scores), "the detector, too, is seen in another draw"
    steady = Stealth(eps=0.05, steps=2, budget="quick")
    steady(toy_defense("abstain"), data.images, data.labels)
    assert steady.averaged == 1
    soft = SoftOutput(defense, Level("bpda"), 0.25)
    soft.label = 2
    again = redrawn(soft, 1)
    assert again.label == 2
    assert not torch.equal(again(data.images), soft(data.images))


def test_a_random_defence_is_broken_where_any_draw_is() -> None:
    defense, images = random_defense("purified"), toy_images(30)
    labels = defense.decide(images).label
    attack = Direct(eps=0.03, steps=5, budget="quick")
    attack.inspect(defense)
    shown = PGD(eps=0.03, steps=5)(redrawn(defense, 3), images, labels)
    by_three = fooled(redrawn(defense, 3), shown, labels)
    assert bool((by_three & ~fooled(defense, shown, labels)).any())
    assert bool(attack.broken(defense, shown, labels)[by_three].all())


class Touchy(nn.Module):
    """Wrong as soon as an image is brighter than a grey level of 100 by a quarter of a level."""

    purifier = evidence = logits = None

    def decide(self, images: Tensor) -> SimpleNamespace:
        wrong = images.flatten(1).mean(1) > 100.25 / 255
        return SimpleNamespace(label=wrong.long(), accepted=torch.ones_like(wrong))


class Brighter(Attack):
    """Adds so many grey levels."""

    def __init__(self, levels: float) -> None:
        super().__init__(eps=2 / 255)
        self.levels = levels

    def run(self, model: Any, images: Tensor, labels: Tensor, numbers: Sequence[int]) -> Tensor:
        return images + self.levels / 255


class TwoTries(AdaptiveAttack):
    """A little brighter, which rounding undoes; then by a whole level."""

    def tries(self, defense: Any) -> list[Attack]:
        return [Brighter(0.4), Brighter(1.0)]


@pytest.mark.parametrize(("lattice", "moved"), [(True, 1.0), (False, 0.4)])
def test_a_success_that_rounding_undoes_is_none(lattice: bool, moved: float) -> None:
    images, labels = torch.full((2, 3, 4, 4), 100 / 255), torch.zeros(2, dtype=torch.int64)
    adversarial = TwoTries(eps=2 / 255, lattice=lattice)(Touchy(), images, labels)
    torch.testing.assert_close(255 * adversarial, torch.full_like(images, 100 + moved), rtol=0, atol=1e-3)
    assert bool(fooled(Touchy(), adversarial, labels).all())
