"""Views and twins of a defence, and the gradients that are tried."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from alu import Defense
from alu.attacks.adaptive import Query, Soft, Stealth
from alu.attacks.adaptive.view import Level, View, levels, other_class, smoothly_purified, twin
from alu.detectors import Neighbourhood
from alu.purifiers import Blur, Purifier
from alu.purifiers.base import Traits
from tests.toys import Toy, toy_asymmetric, toy_defense, toy_images, toy_vae


def test_features_are_not_clipped_like_images() -> None:
    # An attacker who clips what the deployed path does not attacks something weaker.
    defense, images = toy_asymmetric("reconstruction"), toy_images(3)
    still = twin(defense, Level("surrogate", 0))
    seen = still.evidence(images)
    assert float(seen.purified.min()) < -0.05, "features must leave [0, 1] for this to mean anything"
    torch.testing.assert_close(View(defense, Level()).before(images), seen.pre_logits)
    torch.testing.assert_close(smoothly_purified(defense)(images), seen.post_logits)
    path = defense.purifier.trajectory(images, 2)  # type: ignore[operator]
    torch.testing.assert_close(path[-1], defense.purifier(images))


def test_a_twin_shares_weights_and_leaves_the_defence_alone() -> None:
    defense = toy_defense("alu", "reconstruction")
    other = twin(defense, Level("bpda", 1))
    assert (other.grad_mode, other.purifier.steps) == ("bpda", 1)
    assert (defense.grad_mode, defense.purifier.steps) == ("unrolled", 3)
    assert next(other.parameters()) is next(defense.parameters())
    assert twin(defense, Level("bpda", 50)).purifier.steps == 3


def test_levels_follow_the_purifier() -> None:
    assert levels(toy_defense()) == [Level()]
    quick = levels(toy_defense("alu", "reconstruction"), "quick")
    assert quick == [Level("surrogate", 0), Level("unrolled", 3)]
    assert levels(toy_defense("alu", "reconstruction"), "standard")[-1] == Level("bpda", None)


def test_the_deployed_number_of_steps_is_attacked_with_several_gradients() -> None:
    chosen = [str(level) for level in levels(Defense(Toy(), toy_vae(steps=20), rule="purified"))]
    assert chosen == ["surrogate, N=0", "unrolled, N=5", "unrolled, N=1", "surrogate", "bpda"]


def test_the_full_budget_unrolls_every_step() -> None:
    deep = toy_defense("purified", purifier=toy_vae(steps=8))
    assert [str(level) for level in levels(deep, "full")] == [
        "surrogate, N=0", "unrolled, N=5", "unrolled, N=1", "surrogate", "bpda", "unrolled",
    ]  # fmt: skip
    assert str(levels(deep, "standard")[-1]) == "bpda"


@pytest.mark.parametrize("reference", ["input", "reconstruction"])
def test_the_logits_before_are_the_evidence_s(reference: str) -> None:
    defense, images = toy_defense("alu", reference), toy_images(3)
    view = View(defense, Level())
    torch.testing.assert_close(view.before(images), defense.evidence(images).pre_logits)


def test_classes_are_ranked_without_the_label() -> None:
    logits = torch.tensor([[1.0, 5.0, 3.0], [9.0, 2.0, 4.0]])
    labels = torch.tensor([1, 0])
    assert other_class(logits, labels, 0).tolist() == [2, 2]
    assert other_class(logits, labels, 1).tolist() == other_class(logits, labels, 7).tolist() == [0, 1]


class Noisy(Blur):
    """A blur that says it is random."""

    @property
    def traits(self) -> Traits:
        return replace(super().traits, stochastic=True)


@pytest.mark.parametrize(
    ("rule", "purifier", "counts"),
    [("purified", None, (3, 2, 2)), ("purified", Noisy(0.5), (8, 6, 2)), ("alu", None, (8, 6, 2))],
)
def test_searches_that_cannot_differ_run_once(
    rule: str, purifier: Purifier | None, counts: tuple[int, int, int]
) -> None:
    defense = toy_defense(rule, purifier=purifier)
    attacks = (Stealth(budget="quick"), Soft(budget="quick"), Query(budget="quick"))
    assert tuple(len(list(attack.tries(defense))) for attack in attacks) == counts


def test_the_unit_of_a_search_s_score_is_the_spread_of_the_logits() -> None:
    defense = Defense(Toy(), detector=Neighbourhood(0.01), rule="abstain")
    view, images = View(defense, Level()), toy_images(4)
    evidence = view.evidence(images)
    torch.testing.assert_close(view.threshold_size(evidence), evidence.post_logits.std(1))
