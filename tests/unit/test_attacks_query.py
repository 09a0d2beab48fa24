"""Query: attacks without gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import alu
from alu.attacks import HopSkipJump, Square, fooled
from alu.attacks.adaptive import Query
from alu.attacks.adaptive.query import HELD, Accepted
from alu.attacks.adaptive.view import Level
from alu.detectors import Neighbourhood
from tests.linear import Linear, linear_data
from tests.toys import Toy, attacks_tried, toy_defense


def test_query_uses_predicted_labels_unless_the_budget_is_quick() -> None:
    assert attacks_tried(Query(budget="quick"), toy_defense()) == {"Square": 2}
    assert attacks_tried(Query(budget="standard"), toy_defense()) == {"Square": 2, "HopSkipJump": 1}


def test_every_rule_gets_two_runs_that_differ() -> None:
    seeds = {
        rule: [attack.attack.seed for attack in Query(budget="quick", seed=3).tries(toy_defense(rule))]  # type: ignore[attr-defined]
        for rule in ("purified", "alu")
    }
    assert seeds == {"purified": [3, 4], "alu": [3, 3]}, "two soft outputs, or two draws of the same one"


def check(radius: float = 2 / 255) -> alu.Defense:
    return alu.Defense(Linear(), detector=Neighbourhood(radius), rule="abstain")


def test_a_refusal_is_a_failure_that_tells_how_near_success_is() -> None:
    data, defense = linear_data(40), check()
    output = Accepted(defense, Level("blind"))
    output.label = 1
    labels = torch.ones(40, dtype=torch.int64)
    logits = output(data.images)
    assert torch.equal(logits.argmax(1) != 1, fooled(defense, data.images, labels))
    assert torch.equal(logits.argmax(1) != 1, (data.own == 0) & (data.distance > 2))
    held = logits.argmax(1) == 1
    ahead = torch.where(data.own == 0, data.distance, -data.distance) * Linear().slope
    torch.testing.assert_close((HELD - logits[:, 1])[held], ahead[held], rtol=0, atol=2e-3)
    around = Accepted(defense, Level("blind"), around=True)
    around.label = 1
    # One step of a search comes 2/255 nearer to the boundary.
    nearer = ahead - 2 * Linear().slope
    torch.testing.assert_close((HELD - around(data.images)[:, 1])[held], nearer[held], rtol=0, atol=2e-3)


class Farther(Linear):
    """The linear classifier with its boundary moved by 2/255 into class 1: it is wrong where the check accepts."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images) + torch.tensor([0.0, 2 * self.slope])


def test_queries_on_a_check_find_what_they_find_on_a_classifier_with_that_boundary() -> None:
    data = linear_data(60)
    chosen = data.right & (data.labels == 1) & (data.distance > 2) & (data.distance < 3)
    images, labels = data.images[chosen], data.labels[chosen]
    settings = {"eps": 12 / 255, "queries": 1500, "seed": 3}
    attacked = Query(budget="quick", **settings)(check(), images, labels)
    plain = Square(**settings)(Farther(), images, labels)
    broken = fooled(Farther(), plain, labels)
    assert bool(broken.any())
    assert torch.equal(fooled(check(), attacked, labels), broken)


def test_the_hard_label_search_starts_at_an_accepted_picture_of_another_class() -> None:
    data, defense = linear_data(40), check()
    one = (data.right & (data.distance > 2) & (data.distance < 5)).nonzero().flatten()[:1]
    begun: list[Tensor] = []

    class Watched(HopSkipJump):
        def _begin(self, *arguments: Any) -> tuple[Tensor, Tensor]:
            begin, ready = super()._begin(*arguments)
            begun.append(fooled(defense, begin, data.labels[one]))
            return begin, ready

    tries = list(Query(budget="standard", starts=data.images).tries(defense))
    assert isinstance(tries[-1].attack, HopSkipJump)  # type: ignore[attr-defined]
    assert tries[-1].attack.starts is data.images  # type: ignore[attr-defined]
    attacked = Watched(starts=data.images, steps=5, queries=20, eps=0.3)(defense, data.images[one], data.labels[one])
    assert [bool(accepted.all()) for accepted in begun] == [True]
    assert bool(fooled(defense, attacked, data.labels[one]).all()), "the walk never ends at a refused picture"


def test_a_check_gets_a_second_run_around_the_picture_unless_the_budget_is_quick() -> None:
    toy = alu.Defense(Toy(), detector=Neighbourhood(0.01), rule="abstain")
    assert attacks_tried(Query(budget="quick"), toy) == {"Square": 1}
    assert attacks_tried(Query(budget="standard"), toy) == {"Square": 2, "HopSkipJump": 1}
