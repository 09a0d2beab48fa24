"""Query: attacks without gradients."""

from __future__ import annotations

from alu.attacks.adaptive import Query
from tests.toys import attacks_tried, toy_defense


def test_query_uses_predicted_labels_unless_the_budget_is_quick() -> None:
    assert attacks_tried(Query(budget="quick"), toy_defense()) == {"Square": 2}
    assert attacks_tried(Query(budget="standard"), toy_defense()) == {"Square": 2, "HopSkipJump": 1}


def test_every_rule_gets_two_runs_that_differ() -> None:
    seeds = {
        rule: [attack.attack.seed for attack in Query(budget="quick", seed=3).tries(toy_defense(rule))]  # type: ignore[attr-defined]
        for rule in ("purified", "alu")
    }
    assert seeds == {"purified": [3, 4], "alu": [3, 3]}, "two soft outputs, or two draws of the same one"
