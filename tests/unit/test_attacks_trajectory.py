"""Trajectory: gradients along the latent descent."""

from __future__ import annotations

import torch

from alu.attacks.adaptive.trajectory import AlongTheWay
from tests.toys import toy_data, toy_defense


def test_drift_is_part_of_the_value() -> None:
    defense, data = toy_defense(), toy_data(4)
    plain, drifting = (
        AlongTheWay(defense, data.images, data.labels, stations=2, drift=weight, through=True) for weight in (0.0, 0.1)
    )
    moved = (data.images + 0.1).clamp(0, 1)
    far = (defense.purifier(moved) - drifting.clean).flatten(1).square().sum(1)
    assert bool((far > 0.5).all())
    torch.testing.assert_close(drifting.loss(moved) - plain.loss(moved), 0.1 * far, rtol=1e-3, atol=1e-4)
