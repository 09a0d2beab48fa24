"""Anti-Adversary and Hedge Defense against moves worked out by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from alu.errors import UsageError
from alu.purifiers import AntiAdversary, Hedge


class Line(nn.Module):
    """Two classes and two pixels: logits (w·x, 0) with w = (3, -2)."""

    def forward(self, images: Tensor) -> Tensor:
        flat = images.flatten(1)
        score = 3 * (flat[:, 0] - 0.5) - 2 * (flat[:, 1] - 0.5)
        return torch.stack([score, torch.zeros_like(score)], 1)


def pixels(*values: tuple[float, float]) -> Tensor:
    return torch.tensor(values).view(-1, 1, 1, 2)


def test_anti_adversary_makes_the_present_answer_surer() -> None:
    # The first image is of class 0 and moves along sign w = (+, -), the second of class 1 and moves against it.
    purified = AntiAdversary(Line(), steps=2, step_size=0.1)(pixels((0.7, 0.5), (0.4, 0.5)))
    torch.testing.assert_close(purified, pixels((0.9, 0.3), (0.2, 0.7)))


def test_anti_adversary_keeps_the_first_answer_and_is_clipped() -> None:
    # One step of 0.6 against w would cross the border; the answer that is made surer stays the first one.
    purified = AntiAdversary(Line(), steps=2, step_size=0.6)(pixels((0.45, 0.5)))
    torch.testing.assert_close(purified, pixels((0.0, 1.0)))


def test_hedge_goes_where_no_class_is_sure() -> None:
    # The sum of both cross-entropies is lowest where the logits are equal; hedging climbs away from there.
    start = pixels((0.6, 0.5))
    purified = Hedge(Line(), eps=0.1, steps=20, step_size=0.05)(start)
    torch.testing.assert_close(purified, pixels((0.7, 0.4)))
    still = Hedge(Line(), eps=0.1, steps=0)
    assert bool(((still(start) - start).abs() <= 0.1 + 1e-6).all())
    assert not torch.equal(still(start), start)


def test_hedge_starts_evenly_in_the_ball_by_image_and_seed() -> None:
    images = torch.full((400, 1, 2, 2), 0.5) + torch.linspace(-0.01, 0.01, 400).view(-1, 1, 1, 1)
    away = (Hedge(Line4(), eps=0.2, steps=0)(images) - images) / 0.2
    assert away.abs().max() <= 1 + 1e-5
    assert abs(float(away.mean())) < 0.06
    assert abs(float(away.square().mean()) - 1 / 3) < 0.03, "the variance of an even spread over (-1, 1)"
    other = (Hedge(Line4(), eps=0.2, steps=0, seed=1)(images) - images) / 0.2
    assert not torch.allclose(away, other)


class Line4(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1)[:, :2]


@pytest.mark.parametrize("make", [lambda: AntiAdversary(Line(), step_size=0.0), lambda: Hedge(Line(), eps=8.0)])
def test_impossible_settings_are_refused(make: object) -> None:
    with pytest.raises(UsageError, match="needs steps"):
        make()  # type: ignore[operator]


def test_no_gradient_is_left_in_the_classifier() -> None:
    layer = nn.Sequential(nn.Flatten(), nn.Linear(2, 3))
    AntiAdversary(layer)(pixels((0.4, 0.6)))
    assert all(parameter.grad is None for parameter in layer.parameters())
