"""Query: attacks without gradients."""

from __future__ import annotations

from alu.attacks.adaptive import Query
from tests.toys import attacks_tried, toy_defense


def test_query_asks_for_hard_labels_when_there_is_time() -> None:
    assert attacks_tried(Query(budget="quick"), toy_defense()) == {"Square": 2}
    assert attacks_tried(Query(budget="standard"), toy_defense()) == {"Square": 2, "HopSkipJump": 1}


def test_every_rule_is_asked_as_often_and_a_second_run_draws_other_numbers() -> None:
    seeds = {
        rule: [attack.attack.seed for attack in Query(budget="quick", seed=3).tries(toy_defense(rule))]  # type: ignore[attr-defined]
        for rule in ("purified", "alu")
    }
    assert seeds == {"purified": [3, 4], "alu": [3, 3]}, "two soft outputs, or two draws of the same one"
