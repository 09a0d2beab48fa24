"""Adaptive attacks: what each promises on a toy, and what they share."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from alu.attacks import adaptive
from alu.attacks.adaptive.stealth import FoolAndHide, without
from alu.attacks.adaptive.view import Level, View, either_branch, levels, other_class, ranked, smoothly_purified, twin
from alu.attacks.goals import fooled, margin
from alu.errors import UsageError
from alu.rng import generator
from alu.threat import ThreatModel
from tests.toys import Toy, toy_asymmetric, toy_data, toy_defense, toy_images, toy_vae

EVERY = ("Boost", "Decoy", "Direct", "Match", "Pattern", "Query", "Soft", "Stealth", "Trajectory", "Transfer")
READINGS = (("alu", "input"), ("alu", "reconstruction"), ("purified", "input"), ("abstain", "input"))


def made(name: str, **settings: Any) -> adaptive.AdaptiveAttack:
    common: dict[str, Any] = {"eps": 0.15, "steps": 6, "budget": "quick", **settings}
    if name == "Query":
        common["queries"] = 20
    attack: adaptive.AdaptiveAttack = getattr(adaptive, name)(**common)
    return attack


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize(("rule", "reference"), READINGS)
def test_every_attack_works_on_every_reading_and_stays_inside(name: str, rule: str, reference: str) -> None:
    defense, data = toy_defense(rule, reference), toy_data(6)
    state = torch.random.get_rng_state()
    attack = made(name)
    found = attack(defense, data.images, data.labels)
    assert bool(ThreatModel("Linf", 0.15).contains(found, data.images).all())
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(parameter.grad is None for parameter in defense.parameters())
    assert defense.grad_mode == "unrolled"


@pytest.mark.parametrize("name", EVERY)
def test_every_attack_works_where_features_are_purified(name: str) -> None:
    defense, images = toy_asymmetric("reconstruction"), toy_images(4)
    labels = defense.decide(images).label
    found = made(name, steps=3)(defense, images, labels)
    assert bool(ThreatModel("Linf", 0.15).contains(found, images).all())


def test_features_are_not_clipped_like_images() -> None:
    # An attacker who clips what the deployed path does not attacks something weaker.
    defense, images = toy_asymmetric("reconstruction"), toy_images(3)
    still = twin(defense, Level("surrogate", 0))
    seen = still.evidence(images)
    assert float(seen.purified.min()) < -0.05, "features must leave [0, 1] for this to mean anything"
    torch.testing.assert_close(View(defense, Level(), "test").before(images), seen.pre_logits)
    torch.testing.assert_close(smoothly_purified(defense)(images), seen.post_logits)
    path = defense.purifier.trajectory(images, 2)  # type: ignore[operator]
    torch.testing.assert_close(path[-1], defense.purifier(images))


@pytest.mark.parametrize("name", ["Boost", "Decoy", "Direct", "Pattern", "Stealth", "Trajectory"])
def test_an_image_does_not_depend_on_its_batch(name: str) -> None:
    defense, data = toy_defense("alu", "input"), toy_data(6)
    whole = made(name)(defense, data.images, data.labels)
    parts = made(name, batch_size=2)(defense, data.images, data.labels)
    assert float((whole - parts).abs().max()) <= 1e-5
    some = [4, 1]
    few = made(name)(defense, data.images[some], data.labels[some], numbers=some)
    assert float((whole[some] - few).abs().max()) <= 1e-5


@pytest.mark.parametrize(
    ("name", "rule", "reference"),
    [
        ("Boost", "alu", "input"),
        ("Decoy", "alu", "input"),
        ("Direct", "alu", "input"),
        ("Direct", "purified", "input"),
        ("Stealth", "abstain", "input"),
        ("Soft", "alu", "input"),
        ("Trajectory", "alu", "reconstruction"),
        ("Transfer", "purified", "input"),
    ],
)
def test_with_room_enough_the_attack_breaks_what_it_is_meant_for(name: str, rule: str, reference: str) -> None:
    defense, data = toy_defense(rule, reference), toy_data(10)
    right = ~fooled(defense, data.images, data.labels)
    found = made(name, eps=0.4, steps=20)(defense, data.images, data.labels)
    assert int(fooled(defense, found, data.labels)[right].sum()) >= 0.8 * int(right.sum())


def test_a_plain_model_is_refused_with_what_to_use() -> None:
    data = toy_data(2)
    with pytest.raises(UsageError, match=r"Decoy attacks an alu.Defense.*Use PGD"):
        made("Decoy")(Toy(), data.images, data.labels)


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


@pytest.mark.parametrize("reference", ["input", "reconstruction"])
def test_the_logits_before_are_the_evidence_s(reference: str) -> None:
    defense, images = toy_defense("alu", reference), toy_images(3)
    view = View(defense, Level(), "test")
    torch.testing.assert_close(view.before(images), defense.evidence(images).pre_logits)


def test_either_branch_is_the_margin_of_the_deployed_logits() -> None:
    defense, data = toy_defense(), toy_data(8)
    noise = 0.3 * torch.randn(data.images.shape, generator=generator(0, "noise"))
    images = (data.images + noise).clamp(0, 1)
    view = View(defense, Level(), "test")
    assert 0 < int(defense.decide(images).flagged.sum()) < 8, "both branches must be there"
    torch.testing.assert_close(
        either_branch(view, view.evidence(images), data.labels), margin(defense(images), data.labels)
    )


def test_the_soft_output_hardens_into_the_rule() -> None:
    defense, data = toy_defense(), toy_data(8)
    noise = 0.3 * torch.randn(data.images.shape, generator=generator(0, "noise"))
    images = (data.images + noise).clamp(0, 1)
    soft = adaptive.SoftOutput(defense, Level(), temperature=1e-6)(images)
    assert torch.equal(soft.argmax(1), defense.decide(images).label)


def test_classes_are_ranked_without_the_label() -> None:
    logits = torch.tensor([[1.0, 5.0, 3.0], [9.0, 2.0, 4.0]])
    labels = torch.tensor([1, 0])
    assert ranked(logits, labels).tolist() == [[2, 0], [2, 1]]
    assert other_class(logits, labels, 1).tolist() == other_class(logits, labels, 7).tolist() == [0, 1]


def test_what_is_left_of_a_vector_is_orthogonal() -> None:
    stream = generator(0, "vectors")
    one, two = (torch.randn((4, 3, 8, 8), generator=stream) for _ in range(2))
    left = without(one, two)
    assert float((left * two).flatten(1).sum(1).abs().max()) <= 1e-3
    taken = (one - left).flatten(1)
    along = torch.nn.functional.cosine_similarity(taken, two.flatten(1)).abs()
    torch.testing.assert_close(along, torch.ones(4))


def test_the_orthogonal_step_does_not_move_the_other_part() -> None:
    defense, data = toy_defense("abstain"), toy_data(6)
    goal = FoolAndHide(defense, data.images, data.labels, level=Level(), how="orthogonal")
    images = data.images.clone().requires_grad_(True)
    direction, _ = goal.ascent(images, "test")
    lead, excess = goal.parts(images)
    (away,) = torch.autograd.grad(excess.sum(), images)
    right = lead.detach() <= 0.5
    inner = (direction * away).flatten(1).sum(1) / (direction.flatten(1).norm(dim=1) * away.flatten(1).norm(dim=1))
    assert bool(right.any())
    assert float(inner[right].abs().max()) <= 1e-3


def test_case_three_by_hand() -> None:
    clean = torch.tensor([[2.0, 1.0, 0.0]] * 3)
    attacked = torch.tensor([[2.5, 4.0, 0.0], [1.5, 4.0, 0.0], [5.0, 4.0, 0.0]])
    found = adaptive.case_three(clean, attacked, torch.tensor([0, 0, 0]))
    assert found.tolist() == [True, False, False]


def test_pattern_holds_the_true_logit() -> None:
    defense, data = toy_defense(), toy_data(10)
    found = made("Pattern", eps=0.3, steps=20, penalties=(100.0,), targets=1)(defense, data.images, data.labels)
    before, after = defense.logits(data.images).detach(), defense.logits(found).detach()
    moved = (found - data.images).abs().flatten(1).amax(1) > 0
    kept = after.gather(1, data.labels[:, None]) >= before.gather(1, data.labels[:, None])
    assert int(kept[moved].sum()) >= 0.8 * int(moved.sum())


def test_pattern_prefers_its_case_to_another_wrong_answer() -> None:
    defense, data = toy_defense(), toy_data(24)
    attack = made("Pattern", eps=0.2, steps=12)
    first = ~fooled(defense, data.images, data.labels)
    images, labels = data.images[first], data.labels[first]
    clean = defense.logits(images).detach()
    tried = [search(defense, images, labels) for search in attack.tries(defense)]
    wrong = torch.stack([fooled(defense, each, labels) for each in tried])
    rare = torch.stack([adaptive.case_three(clean, defense.logits(each).detach(), labels) for each in tried])
    assert bool((wrong & ~rare)[:, (wrong & rare).any(0)].any()), "a try must be wrong in another case to mean anything"
    found = attack(defense, images, labels)
    kept = adaptive.case_three(clean, defense.logits(found).detach(), labels)
    assert torch.equal(fooled(defense, found, labels), wrong.any(0))
    assert torch.equal(kept & wrong.any(0), (wrong & rare).any(0))


def test_the_last_station_is_the_purified_image() -> None:
    purifier, images = toy_vae(steps=4), toy_images(3)
    path = purifier.trajectory(images, 2)
    assert len(path) == 2
    torch.testing.assert_close(path[-1], purifier(images))
    assert not torch.equal(path[0], path[1])


def test_match_moves_both_logits_towards_the_guide() -> None:
    defense, data = toy_defense("abstain"), toy_data(12)
    from alu.attacks.adaptive.match import LookAlike

    goal = LookAlike(
        defense, data.images[:4], data.labels[:4], level=Level(), rank=0, guides=data.images, guide_labels=data.labels
    )
    assert not bool((goal.logits.argmax(1) == data.labels[:4]).any())
    found = made("Match", eps=0.3, steps=10, guides=data.images, guide_labels=data.labels, targets=1)
    start, end = goal.loss(data.images[:4]), goal.loss(found(defense, data.images[:4], data.labels[:4]))
    assert bool((end > start).all())
