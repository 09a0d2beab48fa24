"""Every term of an adaptive goal and every try of an attack is there: without one of them a case below fails."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor

from alu import Defense
from alu.attacks import APGDCE, MIM, PGD
from alu.attacks.adaptive import Direct, Query, Soft, Stealth, Transfer, levels
from alu.attacks.adaptive.base import GoalSearch
from alu.attacks.adaptive.boost import Raise, lead
from alu.attacks.adaptive.decoy import WrongRise
from alu.attacks.adaptive.match import LookAlike, features
from alu.attacks.adaptive.soft import SoftOutput
from alu.attacks.adaptive.stealth import SPARE, FoolAndHide, on_manifold
from alu.attacks.adaptive.trajectory import AlongTheWay
from alu.attacks.adaptive.view import Level
from alu.attacks.copies import draws_of, redrawn
from alu.attacks.goals import Goal, fooled, margin
from alu.purifiers import Blur
from tests.toys import NoGradient, Toy, random_defense, toy_data, toy_defense, toy_images, toy_vae

HERE = Level("bpda")


def apart(defense: Defense, images: Tensor) -> tuple[Tensor, Tensor]:
    """Score minus threshold, and the threshold's size, by hand."""
    assert defense.detector is not None
    seen = defense.evidence(images)
    limit = defense.detector.thresholds(seen).float()
    return defense.detector.score(seen) - limit, limit.abs()


@pytest.mark.parametrize("kind", ["boost", "decoy"])
def test_what_the_score_lacks_is_taken_off(kind: str) -> None:
    defense, data = toy_defense(), toy_data(8)
    above, room = apart(defense, data.images)
    lack = (0.05 * room - above).clamp_min(0)
    assert bool((lack > 0).any()), "clean images lie below the threshold"
    seen = defense.evidence(data.images)
    if kind == "boost":
        found = Raise(defense, data.images, data.labels, level=HERE, hinged=True).loss(data.images)
        torch.testing.assert_close(found, lead(seen.pre_logits, data.labels) - lack)
    else:
        found = WrongRise(defense, data.images, data.labels, level=HERE, through=True).loss(data.images)
        torch.testing.assert_close(found, margin(seen.change, data.labels) - lack)


def flagged_and_wrong() -> tuple[Defense, Tensor, Tensor]:
    """Images whose purified answer is wrong by more than 0.5 and whose score is above the threshold."""
    defense, data = toy_defense("abstain"), toy_data(60)
    images = PGD(eps=0.2, steps=10)(lambda at: defense.evidence(at).post_logits, data.images, data.labels)
    wrong = margin(defense.evidence(images).post_logits, data.labels) > 0.5
    chosen = (wrong & (apart(defense, images)[0] > 0)).nonzero().flatten()
    assert len(chosen) >= 5
    return defense, images[chosen].detach(), data.labels[chosen]


def slope(value: Tensor, at: Tensor) -> Tensor:
    return torch.autograd.grad(value.sum(), at)[0]


def test_who_is_wrong_and_suspicious_hides() -> None:
    defense, images, labels = flagged_and_wrong()
    goal = FoolAndHide(defense, images, labels, level=HERE, how="selective")
    at = images.clone().requires_grad_(True)
    towards, _ = goal.ascent(at, "test")
    _, excess = goal.parts(at)
    torch.testing.assert_close(towards, -slope(excess, at))
    right = FoolAndHide(defense, images, defense.evidence(images).post_logits.argmax(1), level=HERE, how="selective")
    at = images.clone().requires_grad_(True)
    torch.testing.assert_close(right.ascent(at, "test")[0], slope(right.parts(at)[0], at))


@pytest.mark.parametrize("weight", [0.1, 10.0])
def test_the_sum_weighs_margin_and_score(weight: float) -> None:
    defense, images, labels = flagged_and_wrong()
    goal = FoolAndHide(defense, images, labels, level=HERE, how="sum", weight=weight)
    above, room = apart(defense, images)
    value = margin(defense.evidence(images).post_logits, labels)
    torch.testing.assert_close(goal.loss(images), value - weight * (above + SPARE * room).clamp_min(0))
    at = images.clone().requires_grad_(True)
    direction, rank = goal.ascent(at, "test")
    torch.testing.assert_close(direction, slope(goal.loss(at), at))
    # Ranked by what is lacking most, so that an image that is wrong and hidden comes before one that is only wrong.
    torch.testing.assert_close(rank, torch.minimum(value, -above))


def test_the_two_other_starts_are_somewhere_else() -> None:
    defense, images = toy_defense("abstain"), toy_images(16)
    labels = defense.decide(images).label
    near = Stealth(eps=0.2, steps=10)._boundary(Level())(defense, images, labels)
    assert float((near - images).abs().max()) <= 0.2 / 4 + 1e-6
    before, after = (margin(defense.evidence(at).post_logits, labels) for at in (images, near))
    assert bool((after > before).all())
    assert bool((after > 0).any())
    defense = toy_defense("abstain", purifier=toy_vae(steps=2))
    labels = defense.decide(images).label
    steep = on_manifold(defense, images, labels, level=Level())
    far, close = (
        (defense.purifier.reconstructed(at) - at).flatten(1).norm(dim=1).mean()  # type: ignore[operator]
        for at in (images, steep)
    )
    assert close < 0.5 * far, "what a VAE makes, it makes again"


@pytest.mark.parametrize(("budget", "count"), [("quick", 8), ("standard", 8), ("full", 18)])
def test_stealth_has_every_kind_and_with_time_every_start(budget: str, count: int) -> None:
    tries: list[Any] = list(Stealth(budget=budget).tries(toy_defense("abstain")))
    kinds = Counter((each.make.keywords["how"], each.make.keywords["weight"], each.begin is not None) for each in tries)
    assert sum(kinds.values()) == count
    assert {kind[:2] for kind in kinds} == {
        ("orthogonal", 1.0), ("selective", 1.0), ("sum", 0.01), ("sum", 0.1), ("sum", 1.0), ("sum", 10.0),
    }  # fmt: skip
    assert kinds[("orthogonal", 1.0, True)] == 2
    assert kinds[("sum", 10.0, True)] == (2 if budget == "full" else 0)


class Passing(Goal):
    """Moves one way whatever comes; wins at one step only, and promises most at another."""

    def __init__(self, wins: int, promises: int) -> None:
        super().__init__(Toy(), torch.zeros(1, dtype=torch.long))
        self.wins, self.promises = wins, promises

    def step(self, images: Tensor) -> Tensor:
        return ((images.flatten(1).mean(1) - 0.2) * 100).round()

    def loss(self, images: Tensor) -> Tensor:
        return -(self.step(images) - self.promises).abs()

    def ascent(self, images: Tensor, who: str) -> tuple[Tensor, Tensor]:
        return torch.ones_like(images), self.loss(images.detach())

    def reached(self, images: Tensor) -> Tensor:
        return self.step(images) == self.wins


@pytest.mark.parametrize(
    ("wins", "promises", "found"),
    [(5, 1, True), (3, 3, True), (3, 1, False), (12, 12, True), (13, 1, False), (14, 14, True), (16, 0, True)],
)
def test_a_success_on_the_way_is_kept(wins: int, promises: int, found: bool) -> None:
    # Asked at steps 5, 10 and 15 and at the end: of the image as it is, and of what promised most since.
    goal = Passing(wins, promises)
    search = GoalSearch(
        lambda *_: goal, "test", eps=0.5, steps=16, step_size=0.01, keep="fooled", random_start=False, norm="Linf"
    )
    images = torch.full((1, 1, 2, 2), 0.2)
    assert bool(goal.reached(search(Toy(), images, goal.labels))) == found


def test_restarts_begin_somewhere_else() -> None:
    defense, data = toy_defense("abstain"), toy_data(6)
    attack: Any = next(iter(Stealth(eps=0.02, steps=4, budget="full").tries(defense)))
    assert attack.restarts == 3
    goal = attack.goal(defense, data.images, data.labels)
    starts = [attack.start(goal, data.images, range(6), restart) for restart in range(3)]
    assert torch.equal(starts[0], data.images)
    assert not torch.equal(starts[1], data.images)
    assert not torch.equal(starts[1], starts[2])
    assert [search.restarts for search in Direct(budget="full").tries(defense)] == [3]  # type: ignore[attr-defined]


def test_match_wants_both_logits_and_both_features() -> None:
    defense, data = toy_defense(), toy_data(12)
    goal = LookAlike(
        defense, data.images, data.labels, level=HERE, rank=0, guides=data.images, guide_labels=data.labels
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
        defense, data.images, data.labels, level=HERE, rank=0, guides=data.images, guide_labels=data.labels
    )
    other.features = None
    torch.testing.assert_close(-other.loss(data.images), logits)


def test_drift_is_part_of_the_value() -> None:
    defense, data = toy_defense(), toy_data(4)
    plain, drifting = (
        AlongTheWay(defense, data.images, data.labels, stations=2, drift=weight, through=True) for weight in (0.0, 0.1)
    )
    moved = (data.images + 0.1).clamp(0, 1)
    far = (defense.purifier(moved) - drifting.clean).flatten(1).square().sum(1)
    assert bool((far > 0.5).all())
    torch.testing.assert_close(drifting.loss(moved) - plain.loss(moved), 0.1 * far, rtol=1e-3, atol=1e-4)


def kinds_of(attack: Any, defense: Defense) -> Counter[str]:
    """The attacks that are tried on sources, a soft output's first answer given."""
    made: Counter[str] = Counter()
    for attempt in attack.tries(defense):
        getattr(attempt, "source", Toy())(toy_images(2))
        made[type(attempt.attack).__name__] += 1
    return made


def test_soft_tries_every_loss_at_every_temperature() -> None:
    defense = toy_defense()
    assert kinds_of(Soft(budget="quick"), defense) == {"CWLinf": 3, "APGDCE": 3}
    assert kinds_of(Soft(budget="standard"), defense) == {"CWLinf": 3, "APGDCE": 3, "APGDDLR": 3, "APGDT": 3}


@pytest.mark.parametrize(("budget", "momentum", "whole"), [("quick", 0, 0), ("standard", 15, 0), ("full", 15, 15)])
def test_transfer_has_every_source_at_every_strength(budget: str, momentum: int, whole: int) -> None:
    other, defense = Toy(), toy_defense()
    attack = Transfer(others=(other,), eps=0.08, budget=budget)
    tries: list[Any] = list(attack.tries(defense))
    grid = Counter(
        (round(each.attack.threat.eps, 4), each.attack.stop_when_fooled, type(each.attack)) for each in tries
    )
    for eps in (0.01, 0.02, 0.04, 0.06, 0.08):
        assert grid[(eps, False, PGD)] == grid[(eps, True, PGD)] == 3, "f, f(D(E)) and the other network"
    assert sum(count for (_, _, kind), count in grid.items() if kind is MIM) == momentum
    assert sum(each.source is other for each in tries) == len(tries) // 3
    last: list[Any] = list(attack.last_tries(defense))
    assert len(last) == whole
    assert {round(each.attack.threat.eps, 4) for each in last} == ({0.01, 0.02, 0.04, 0.06, 0.08} if whole else set())


def test_an_attack_that_stops_leaves_the_image_where_it_fell() -> None:
    model, data = Toy(), toy_data(12)
    settings: dict[str, Any] = {"eps": 0.3, "step_size": 0.02, "random_start": False, "stop_when_fooled": True}
    early, late = (PGD(steps=steps, **settings)(model, data.images, data.labels) for steps in (8, 16))
    fell = fooled(model, early, data.labels)
    assert bool(fell.any())
    assert torch.equal(early[fell], late[fell])
    settings["stop_when_fooled"] = False
    further = PGD(steps=16, **settings)(model, data.images, data.labels)
    assert not torch.equal(early[fell], further[fell])


def test_query_asks_for_hard_labels_when_there_is_time() -> None:
    assert kinds_of(Query(budget="quick"), toy_defense()) == {"Square": 2}
    assert kinds_of(Query(budget="standard"), toy_defense()) == {"Square": 2, "HopSkipJump": 1}


def test_with_time_every_step_is_unrolled() -> None:
    deep = toy_defense("purified", purifier=toy_vae(steps=8))
    assert [str(level) for level in levels(deep, "full")] == [
        "surrogate, N=0", "unrolled, N=5", "unrolled, N=1", "surrogate", "bpda", "unrolled",
    ]  # fmt: skip
    assert str(levels(deep, "standard")[-1]) == "bpda"


@pytest.mark.parametrize("kind", [PGD, APGDCE])
def test_draws_are_other_draws_where_they_follow_the_image(kind: Any) -> None:
    defense, data = random_defense("purified"), toy_data(6)
    assert torch.equal(defense(data.images), defense(data.images)), "a second call is the same draw"
    one, many = (kind(eps=0.05, steps=5, draws=draws)(defense, data.images, data.labels) for draws in (1, 8))
    assert not torch.equal(one, many)


def test_who_knows_a_random_defence_averages_over_its_draws() -> None:
    defense, data = random_defense("abstain"), toy_data(4)
    attack = Stealth(eps=0.05, steps=2, budget="quick")
    attack(defense, data.images, data.labels)
    assert attack.averaged == 4
    search: Any = next(iter(attack.tries(defense)))
    assert search.draws == 4
    # The deployed draw alone first, which is sharper, and then the average.
    made = [each.draws for each in attack.rounds(lambda: attack.tries(defense))]  # type: ignore[attr-defined]
    assert made == [1] * 16 + [4] * 16
    goals = [search.goal(redrawn(defense, draw), data.images, data.labels) for draw in range(2)]
    scores = [goal.parts(data.images)[1] for goal in goals]
    assert not torch.equal(*scores), "the detector, too, is seen in another draw"
    steady = Stealth(eps=0.05, steps=2, budget="quick")
    steady(toy_defense("abstain"), data.images, data.labels)
    assert steady.averaged == 1
    soft = SoftOutput(defense, HERE, 0.25)
    soft.label = 2
    again = redrawn(soft, 1)
    assert again.label == 2
    assert not torch.equal(again(data.images), soft(data.images))


def test_draws_aim_at_the_same_class() -> None:
    defense, data = random_defense("abstain"), toy_data(40)
    goals = [
        LookAlike(drawn, data.images, data.labels, level=HERE, rank=0, guides=data.images, guide_labels=data.labels)
        for drawn in draws_of(defense, 4)
    ]
    assert any(not torch.equal(goal.logits, goals[0].logits) for goal in goals[1:]), "left alone they differ"
    wanted = []

    class Noted(LookAlike):
        def loss(self, images: Tensor) -> Tensor:
            wanted.append(self.logits)
            return super().loss(images)

    def make(model: Any, images: Tensor, labels: Tensor) -> Goal:
        return Noted(model, images, labels, level=HERE, rank=0, guides=data.images, guide_labels=data.labels)

    GoalSearch(make, "test", eps=0.05, steps=1, draws=4)(defense, data.images, data.labels)
    assert len(wanted) == 4
    assert all(torch.equal(each, wanted[0]) for each in wanted)


def test_a_random_defence_falls_where_any_draw_that_judges_it_falls() -> None:
    defense, images = random_defense("purified"), toy_images(30)
    labels = defense.decide(images).label
    attack = Direct(eps=0.03, steps=5, budget="quick")
    attack.inspect(defense)
    shown = PGD(eps=0.03, steps=5)(redrawn(defense, 3), images, labels)
    by_three = fooled(redrawn(defense, 3), shown, labels)
    assert bool((by_three & ~fooled(defense, shown, labels)).any())
    assert bool(attack.broken(defense, shown, labels)[by_three].all())


def test_one_missing_slope_does_not_disarm_a_search() -> None:
    class Broken(Toy):
        def forward(self, images: Tensor) -> Tensor:
            # The branch that is not taken has an infinite slope, and nothing times infinity is no number.
            extra = torch.where(images > 0.45, (images - 0.45).sqrt(), torch.zeros_like(images))
            return super().forward(images) + 1e-3 * extra.flatten(1)[:, :5]

    model, images = Broken(), toy_images(10)
    labels = model(images).argmax(1)
    at = images.clone().requires_grad_(True)
    assert bool(slope(model(at), at).isnan().any())
    for attack in (MIM(eps=0.1, steps=10), PGD(norm="L2", eps=1.0, steps=10)):
        found = attack(model, images, labels)
        assert bool(torch.isfinite(found).all())
        assert int(fooled(model, found, labels).sum()) >= 8


def test_a_source_without_gradients_is_passed_over() -> None:
    defense, data = Defense(NoGradient(), Blur(0.5), rule="purified"), toy_data(6)
    found = Transfer(eps=0.1, steps=10, budget="quick", others=(Toy(),))
    assert bool(fooled(defense, found(defense, data.images, data.labels), data.labels).all())
    assert any("Left out: PGD needs gradients" in note for note in found.flags_)
