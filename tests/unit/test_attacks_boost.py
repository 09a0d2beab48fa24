"""Boost: the lead of the true logit, with a score above the threshold."""

from __future__ import annotations

import torch

from alu.attacks.adaptive.boost import Raise, lead
from alu.attacks.adaptive.view import Level
from tests.toys import above_threshold, toy_data, toy_defense


def test_the_shortfall_of_the_score_is_subtracted() -> None:
    defense, data = toy_defense(), toy_data(8)
    above, room = above_threshold(defense, data.images)
    lack = (0.05 * room - above).clamp_min(0)
    assert bool((lack > 0).any()), "clean images lie below the threshold"
    seen = defense.evidence(data.images)
    loss = Raise(defense, data.images, data.labels, level=Level("bpda"), hinged=True).loss(data.images)
    torch.testing.assert_close(loss, lead(seen.pre_logits, data.labels) - lack)
