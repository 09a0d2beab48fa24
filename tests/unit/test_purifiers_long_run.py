"""Langevin dynamics on a quadratic energy, where every step and the spread at the end are known."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from alu.errors import UsageError
from alu.models.energy import langevin, slope
from alu.purifiers import LongRun
from alu.rng import normal_per_image
from tests.conftest import smooth_images


class Quadratic(nn.Module):
    """U(x) = ||x - 0.5||² / (2 variance): pixels of density N(0.5, variance)."""

    def __init__(self, variance: float) -> None:
        super().__init__()
        self.variance = variance

    def forward(self, images: Tensor) -> Tensor:
        return (images - 0.5).square().flatten(1).sum(1) / (2 * self.variance)


def test_steps_by_hand() -> None:
    images, variance, size = smooth_images(2), 0.01, 0.02
    purifier = LongRun(Quadratic(variance), steps=2, step_size=size, draws=1)
    at = images
    for number in range(2):
        noise = normal_per_image(images, (3, 8, 8), 0, "langevin", number)
        at = at - size**2 / 2 * (at - 0.5) / variance + size * noise
    torch.testing.assert_close(purifier(images), at)


def test_the_spread_at_the_end_is_that_of_the_density_but_for_the_step() -> None:
    variance = 0.02**2
    size = math.sqrt(0.2 * variance)  # each step keeps 1 - size²/(2 variance) = 0.9 of the distance
    images = torch.full((1, 1, 150, 150), 0.6)
    end = LongRun(Quadratic(variance), steps=80, step_size=size, draws=1)(images)
    stationary = size**2 / (1 - 0.9**2)
    assert stationary == pytest.approx(variance / 0.95)
    assert float(end.var()) == pytest.approx(stationary, rel=0.03)
    assert float(end.mean()) == pytest.approx(0.5, abs=4 * math.sqrt(stationary) / 150)


def test_no_steps_change_nothing_and_no_gradient_is_left_in_the_network() -> None:
    images, network = smooth_images(2), nn.Sequential(nn.Flatten(), nn.Linear(192, 1)).double()
    assert torch.equal(LongRun(network, steps=0)(images), images)
    energy = nn.Sequential(network, nn.Flatten(0))
    LongRun(energy, steps=2)(images)
    assert all(weight.grad is None for weight in network.parameters())


def test_the_slope_can_be_differentiated_again_where_it_is_asked_for() -> None:
    at = smooth_images(1).requires_grad_(True)
    assert not slope(Quadratic(0.5), at).requires_grad
    (second,) = torch.autograd.grad(slope(Quadratic(0.5), at, graph=True).sum(), at)
    torch.testing.assert_close(second, torch.full_like(at, 2.0))
    moved = langevin(Quadratic(0.5), at, torch.zeros_like(at), 0.2, graph=True)
    (along,) = torch.autograd.grad(moved.sum(), at)
    torch.testing.assert_close(along, torch.full_like(at, 1 - 0.02 * 2))


@pytest.mark.parametrize("settings", [{"steps": -1}, {"step_size": 0.0}, {"draws": 0}])
def test_impossible_settings_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="LongRun needs"):
        LongRun(Quadratic(1.0), **settings)  # type: ignore[arg-type]
