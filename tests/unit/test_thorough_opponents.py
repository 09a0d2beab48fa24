"""Parts of an opponent that matter when cheaper ones fail: decoy (b), AutoAttack on the soft output, wide curves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from alu import Defense
from alu.attacks import AutoAttack
from alu.attacks.adaptive import Decoy, Soft, Stealth
from alu.attacks.adaptive.decoy import WrongRise
from alu.attacks.adaptive.query import Query
from alu.attacks.adaptive.soft import OnSoft
from alu.attacks.adaptive.view import Level
from alu.attacks.goals import margin
from alu.purifiers import Blur, Purifier
from alu.purifiers.base import Traits
from tests.toys import Toy, toy_data, toy_defense, toy_images, toy_vae


def test_decoy_b_refreshes_the_deployed_purifier() -> None:
    defense, data = toy_defense("alu", "input", toy_vae(steps=3)), toy_data(4)
    goals = [search.goal(defense, data.images, data.labels) for search in Decoy().tries(defense)]  # type: ignore[attr-defined]
    (refreshed,) = [goal for goal in goals if isinstance(goal, WrongRise) and not goal.through]
    deployed = defense.evidence(data.images)
    assert not torch.equal(deployed.purified, toy_vae(steps=0)(data.images)), "steps must change something"
    torch.testing.assert_close(refreshed.view.evidence(data.images).purified, deployed.purified)


def test_decoy_b_takes_the_purified_logits_as_they_are() -> None:
    defense, data = toy_defense("alu", "input", toy_vae(steps=3)), toy_data(4)
    fixed = defense.evidence(data.images).post_logits.detach()
    # The score is far above its bound here, so that the loss is the lead alone.
    defense.detector.scores_ = 0 * defense.detector.scores_  # type: ignore[union-attr]
    goal = WrongRise(defense, data.images, data.labels, level=Level("bpda"), through=False)
    found = []
    for loss in (goal.loss, lambda at: margin(fixed - defense.logits(at), data.labels)):
        at = data.images.clone().requires_grad_(True)
        found.append(torch.autograd.grad(loss(at).sum(), at)[0])
    torch.testing.assert_close(found[0], found[1])


@pytest.mark.parametrize(("budget", "count"), [("quick", 0), ("standard", 1), ("full", 1)])
def test_a_defence_that_stands_faces_autoattack_on_its_soft_output(
    monkeypatch: pytest.MonkeyPatch, budget: str, count: int
) -> None:
    faced: list[tuple[Any, int]] = []

    def seen(self: AutoAttack, model: Any, images: Tensor, *_: Any, **__: Any) -> Tensor:
        faced.append((model, len(images)))
        return images

    monkeypatch.setattr(AutoAttack, "__call__", seen)
    defense, images = toy_defense(), toy_images(6)
    labels = defense.decide(images).label
    last = list(Soft(budget=budget).last_tries(defense))
    assert [type(attempt) for attempt in last] == [OnSoft] * count
    # A ball in which nothing can be found: every image is still there at the end.
    Soft(eps=1e-6, steps=1, budget=budget)(defense, images, labels)
    assert sum(number for _, number in faced) == len(images) * count
    if count:
        # The middle temperature is wrong about some of them; those are attacked where the output is sharper.
        (middle, kept), (sharp, _) = faced
        assert int((middle(images).argmax(1) == labels).sum()) == kept < len(images)
        assert torch.equal(sharp(images).argmax(1), labels)


class Noisy(Blur):
    """A blur that says it is random."""

    @property
    def traits(self) -> Traits:
        return replace(super().traits, stochastic=True)


@pytest.mark.parametrize(
    ("rule", "purifier", "counts"),
    [("purified", None, (3, 2, 2)), ("purified", Noisy(0.5), (8, 6, 2)), ("alu", None, (8, 6, 2))],
)
def test_searches_that_cannot_differ_are_made_once(
    rule: str, purifier: Purifier | None, counts: tuple[int, int, int]
) -> None:
    defense = toy_defense(rule, purifier=purifier)
    attacks = (Stealth(budget="quick"), Soft(budget="quick"), Query(budget="quick"))
    assert tuple(len(list(attack.tries(defense))) for attack in attacks) == counts


def test_every_rule_is_asked_as_often_and_a_second_run_draws_other_numbers() -> None:
    seeds = {
        rule: [attack.attack.seed for attack in Query(budget="quick", seed=3).tries(toy_defense(rule))]  # type: ignore[attr-defined]
        for rule in ("purified", "alu")
    }
    assert seeds == {"purified": [3, 4], "alu": [3, 3]}, "two soft outputs, or two draws of the same one"


def test_without_a_score_hiding_is_the_margin_alone() -> None:
    defense, data = Defense(Toy(), Blur(0.5), rule="purified"), toy_data(6)
    attack = Stealth(eps=0.05, steps=6)
    kept, *left_out = [
        attack._goal_search(Level(), how, weight)(defense, data.images, data.labels)
        for how, weight in (("sum", 0.0), ("orthogonal", 1.0), ("selective", 1.0), ("sum", 10.0))
    ]
    assert not torch.equal(kept, data.images)
    assert all(torch.equal(kept, other) for other in left_out)
