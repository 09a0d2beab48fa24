"""Direct: the margin of the logits that the rule uses."""

from __future__ import annotations

import torch

from alu.attacks.adaptive.view import Level, View, either_branch
from alu.attacks.goals import margin
from alu.rng import generator
from tests.toys import toy_data, toy_defense


def test_either_branch_is_the_margin_of_the_deployed_logits() -> None:
    defense, data = toy_defense(), toy_data(8)
    noise = 0.3 * torch.randn(data.images.shape, generator=generator(0, "noise"))
    images = (data.images + noise).clamp(0, 1)
    view = View(defense, Level(), "test")
    assert 0 < int(defense.decide(images).flagged.sum()) < 8, "both branches must be there"
    torch.testing.assert_close(
        either_branch(view, view.evidence(images), data.labels), margin(defense(images), data.labels)
    )
