"""Stealth: a wrong answer with a score below the threshold."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from alu import Defense
from alu.attacks import PGD
from alu.attacks.adaptive import Direct, Stealth
from alu.attacks.adaptive.soft import SoftOutput, standard
from alu.attacks.adaptive.stealth import SPARE, FoolAndHide, on_manifold, without
from alu.attacks.adaptive.view import Level, View
from alu.attacks.goals import margin
from alu.detectors import LogitShift
from alu.evaluation.harmless import gaussian_noise
from alu.purifiers import Blur
from alu.rng import generator
from alu.state import State
from alu.threat import ThreatModel
from tests.toys import Toy, above_threshold, slope, toy_data, toy_defense, toy_images, toy_vae

THREAT = ThreatModel("Linf", 0.05)


def flagged_and_wrong() -> tuple[Defense, Tensor, Tensor]:
    """Images whose purified answer is wrong by more than 0.5 and whose score is above the threshold."""
    defense, data = toy_defense("abstain"), toy_data(60)
    images = PGD(eps=0.2, steps=10)(lambda at: defense.evidence(at).post_logits, data.images, data.labels)
    wrong = margin(defense.evidence(images).post_logits, data.labels) > 0.5
    chosen = (wrong & (above_threshold(defense, images)[0] > 0)).nonzero().flatten()
    assert len(chosen) >= 5
    return defense, images[chosen].detach(), data.labels[chosen]


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


def test_a_wrong_and_flagged_image_lowers_its_score() -> None:
    defense, images, labels = flagged_and_wrong()
    goal = FoolAndHide(defense, images, labels, level=Level("bpda"), how="selective")
    at = images.clone().requires_grad_(True)
    towards, _ = goal.ascent(at, "test")
    _, excess = goal.parts(at)
    torch.testing.assert_close(towards, -slope(excess, at))
    right = FoolAndHide(
        defense, images, defense.evidence(images).post_logits.argmax(1), level=Level("bpda"), how="selective"
    )
    at = images.clone().requires_grad_(True)
    torch.testing.assert_close(right.ascent(at, "test")[0], slope(right.parts(at)[0], at))


@pytest.mark.parametrize("weight", [0.1, 10.0])
def test_the_sum_weighs_margin_and_score(weight: float) -> None:
    defense, images, labels = flagged_and_wrong()
    goal = FoolAndHide(defense, images, labels, level=Level("bpda"), how="sum", weight=weight)
    above, room = above_threshold(defense, images)
    value = margin(defense.evidence(images).post_logits, labels)
    torch.testing.assert_close(goal.loss(images), value - weight * (above + SPARE * room).clamp_min(0))
    at = images.clone().requires_grad_(True)
    direction, rank = goal.ascent(at, "test")
    torch.testing.assert_close(direction, slope(goal.loss(at), at))
    # Ranked by the smaller of the two: an image that is wrong and not flagged comes before one that is only wrong.
    torch.testing.assert_close(rank, torch.minimum(value, -above))


def test_the_two_other_starts() -> None:
    defense, images = toy_defense("abstain"), toy_images(16)
    labels = defense.decide(images).label
    near = Stealth(eps=0.2, steps=10)._boundary(Level())(defense, images, labels)
    assert float((near - images).abs().max()) <= 0.2 / 4 + 1e-6
    before, after = (margin(defense.evidence(at).post_logits, labels) for at in (images, near))
    assert bool((after > before).all())
    assert bool((after > 0).any())
    defense = toy_defense("abstain", purifier=toy_vae(steps=2))
    labels = defense.decide(images).label
    steep = on_manifold(defense, images, labels)
    far, close = (
        (defense.purifier.reconstructed(at) - at).flatten(1).norm(dim=1).mean()  # type: ignore[operator]
        for at in (images, steep)
    )
    assert close < 0.5 * far, "a VAE reproduces its own outputs"


@pytest.mark.parametrize(("budget", "count"), [("quick", 8), ("standard", 8), ("full", 18)])
def test_stealth_has_every_kind_and_with_full_budget_every_start(budget: str, count: int) -> None:
    tries: list[Any] = list(Stealth(budget=budget).tries(toy_defense("abstain")))
    kinds = Counter((each.make.keywords["how"], each.make.keywords["weight"], each.begin is not None) for each in tries)
    assert sum(kinds.values()) == count
    assert {kind[:2] for kind in kinds} == {
        ("orthogonal", 1.0), ("selective", 1.0), ("sum", 0.01), ("sum", 0.1), ("sum", 1.0), ("sum", 10.0),
    }  # fmt: skip
    assert kinds[("orthogonal", 1.0, True)] == 2
    assert kinds[("sum", 10.0, True)] == (2 if budget == "full" else 0)


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


def test_without_a_threshold_every_search_is_the_margin_alone() -> None:
    defense, data = Defense(Toy(), Blur(0.5), rule="purified"), toy_data(6)
    attack = Stealth(eps=0.05, steps=6)
    kept, *left_out = [
        attack._goal_search(Level(), how, weight)(defense, data.images, data.labels)
        for how, weight in (("sum", 0.0), ("orthogonal", 1.0), ("selective", 1.0), ("sum", 10.0))
    ]
    assert not torch.equal(kept, data.images)
    assert all(torch.equal(kept, other) for other in left_out)


def test_image_sizes_that_the_stride_does_not_divide() -> None:
    class Wide(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return Toy()(images[:, :, :8, :8])

    images = torch.rand((4, 3, 10, 10), generator=torch.Generator().manual_seed(0))
    defense = Defense(Wide(), toy_vae(steps=1), LogitShift(0.05), "abstain", "input").calibrate(
        torch.rand((60, 3, 10, 10), generator=torch.Generator().manual_seed(1))
    )
    labels = defense.decide(images).label
    adversarial = Stealth(eps=0.05, steps=2, budget="quick", weights=(1.0,))(defense, images, labels)
    assert bool(THREAT.contains(adversarial, images).all())


def test_under_graded_the_image_itself_is_made_wrong_and_stays_unsuspicious() -> None:
    defense, data = toy_defense("graded"), toy_data(12)
    # The stated size: what a larger attack leaves counts as corrupted.
    attack = Stealth(eps=defense.residual.eps, steps=15, budget="quick")
    searches = list(attack.tries(defense))
    assert len(searches) == 2 * len(list(attack.tries(toy_defense("alu"))))
    goal = searches[0].goal(defense, data.images, data.labels)  # type: ignore[attr-defined]
    evidence = goal.view.evidence(data.images)
    lead, above, _ = goal.terms(data.images)
    torch.testing.assert_close(lead, margin(evidence.pre_logits, data.labels))
    # Positive exactly where the answer does not come from the image: it is suspicious, or noisy.
    noisy = gaussian_noise(data.images, 0.3)
    for images in (data.images, noisy):
        itself = torch.isclose(defense(images), defense.logits(images)).all(1)
        assert torch.equal(goal.terms(images)[1] <= 0, itself)
    assert bool((above <= 0).any())
    strict = toy_defense("graded")
    strict.residual.clean_, strict.residual.eps = 1e-3 * strict.residual.clean_, 1e-6
    strict_goal = searches[0].goal(strict, data.images, data.labels)  # type: ignore[attr-defined]
    assert bool((strict_goal.terms(data.images)[1] > 0).all()), "noisy, however low the score"
    adversarial = searches[0](defense, data.images, data.labels)
    decision = defense.decide(adversarial)
    wrong = decision.label != data.labels
    assert int(wrong.sum()) >= 5
    assert int((wrong & (decision.state == State.CLEAN)).sum()) >= 0.8 * int(wrong.sum())


@pytest.mark.parametrize("width", [0.02, 0.1, 0.2, 0.4])
def test_a_defence_is_attacked_at_its_own_width(width: float) -> None:
    defense, images = toy_defense("graded", suspicious=width), toy_images(60)
    decision = defense.decide(images)
    itself = decision.state == State.CLEAN
    view = View(defense, Level())
    assert torch.equal(view.unusual(view.evidence(images))[0] <= 0, itself)
    # The share of images that are not answered from themselves follows the width.
    assert abs(float((~itself).float().mean()) - max(width, 0.05)) <= 0.15
    soft = SoftOutput(defense, Level(), temperature=1e-7)(images)
    torch.testing.assert_close(soft, standard(defense(images)), rtol=1e-3, atol=1e-3)
