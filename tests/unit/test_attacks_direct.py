"""Direct: the margin of the logits that the rule uses."""

from __future__ import annotations

import pytest
import torch

from alu import Defense
from alu.attacks.adaptive.direct import Deployed, Direct
from alu.attacks.adaptive.view import Level
from alu.attacks.goals import margin
from alu.errors import NoGradientError
from alu.purifiers import Blur
from alu.rng import generator
from tests.toys import NoGradient, toy_data, toy_defense


def test_the_loss_is_the_margin_of_the_deployed_logits() -> None:
    defense, data = toy_defense(), toy_data(8)
    noise = 0.3 * torch.randn(data.images.shape, generator=generator(0, "noise"))
    images = (data.images + noise).clamp(0, 1)
    assert 0 < int(defense.decide(images).flagged.sum()) < 8, "both branches must be there"
    loss = Deployed(defense, images, data.labels, level=Level()).loss(images)
    torch.testing.assert_close(loss, margin(defense(images), data.labels))


def test_a_defence_without_gradients_is_an_error_that_names_the_attack() -> None:
    defense, data = Defense(NoGradient(), Blur(0.5), rule="purified"), toy_data(2)
    with pytest.raises(NoGradientError, match=r"^Direct needs gradients"):
        Direct(steps=1)(defense, data.images, data.labels)
