"""Decoy: a wrong rise, with a score above the threshold."""

from __future__ import annotations

import torch

from alu.attacks.adaptive import Decoy
from alu.attacks.adaptive.decoy import WrongRise
from alu.attacks.adaptive.view import Level
from alu.attacks.goals import margin
from tests.toys import above_threshold, toy_data, toy_defense, toy_vae


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
    gradients = []
    for loss in (goal.loss, lambda at: margin(fixed - defense.logits(at), data.labels)):
        at = data.images.clone().requires_grad_(True)
        gradients.append(torch.autograd.grad(loss(at).sum(), at)[0])
    torch.testing.assert_close(gradients[0], gradients[1])


def test_the_shortfall_of_the_score_is_subtracted() -> None:
    defense, data = toy_defense(), toy_data(8)
    above, room = above_threshold(defense, data.images)
    lack = (0.05 * room - above).clamp_min(0)
    assert bool((lack > 0).any()), "clean images lie below the threshold"
    seen = defense.evidence(data.images)
    loss = WrongRise(defense, data.images, data.labels, level=Level("bpda"), through=True).loss(data.images)
    torch.testing.assert_close(loss, margin(seen.change, data.labels) - lack)
