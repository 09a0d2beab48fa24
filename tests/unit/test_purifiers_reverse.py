"""The reverse attack: InfoNCE by hand, and steps that lower it inside the ball."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from alu.errors import UsageError
from alu.purifiers import ReverseAttack
from alu.purifiers.reverse import info_nce
from tests.conftest import smooth_images
from tests.contracts.parts import images_like, small_contrastive


def test_info_nce_by_hand() -> None:
    own, other = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[0.6, 0.8], [0.0, 1.0]])
    negatives = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    found = info_nce(own, other, negatives, temperature=0.5)
    first = -math.log(math.exp(1.2) / (math.exp(1.2) + math.exp(0.0) + math.exp(-2.0)))
    second = -math.log(math.exp(2.0) / (math.exp(2.0) + math.exp(2.0) + math.exp(0.0)))
    torch.testing.assert_close(found, torch.tensor([first, second]))
    same = torch.tensor([[False, False], [True, False]])
    masked = info_nce(own, other, negatives, same, temperature=0.5)
    torch.testing.assert_close(masked, torch.tensor([first, -math.log(math.exp(2.0) / (math.exp(2.0) + 1.0))]))


class Sides(nn.Module):
    """Unit vectors at the angle of the difference between the left and the right half: views agree where it is 0."""

    def __init__(self) -> None:
        super().__init__()
        self.negatives = torch.tensor([[-1.0, 0.0]])

    def forward(self, images: Tensor) -> Tensor:
        angle = 20 * (images[..., :4].mean((1, 2, 3)) - images[..., 4:].mean((1, 2, 3)))
        return torch.stack([angle.cos(), angle.sin()], 1)


def test_views_of_an_image_come_together() -> None:
    images = torch.full((6, 1, 8, 8), 0.5)
    images[..., :4] += torch.linspace(0.02, 0.07, 6).view(-1, 1, 1, 1)
    purifier = ReverseAttack(Sides(), eps=0.05, steps=30, step_size=0.005)
    purified = purifier(images)
    assert float((purified - images).abs().max()) <= 0.05 + 1e-6
    before, after = (purifier.loss(at, images, 99).mean() for at in (images, purified))
    assert float(after) < 0.5 * float(before)
    sides = [(at[..., :4].mean() - at[..., 4:].mean()).abs() for at in (images, purified)]
    assert float(sides[1]) < 0.5 * float(sides[0])


def test_draws_follow_the_image_the_seed_and_the_step() -> None:
    network, images = small_contrastive((3, 32, 32)), images_like(2, (3, 32, 32))
    purifier = ReverseAttack(network, steps=2)
    assert not torch.equal(purifier(images), ReverseAttack(network, steps=2, seed=1)(images))
    losses = [purifier.loss(images, images, number) for number in range(2)]
    assert not torch.allclose(*losses)
    torch.testing.assert_close(purifier.loss(images[1:], images[1:], 0), losses[0][1:])


def test_more_views_are_averaged_over_all_pairs() -> None:
    images = smooth_images(2)
    network = small_contrastive((3, 8, 8)).double()
    two, three = (ReverseAttack(network, views=views).loss(images, images, 0) for views in (2, 3))
    assert two.shape == three.shape == (2,)
    assert not torch.allclose(two, three)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(UsageError, match="at least 2 views"):
        ReverseAttack(Sides(), views=1)
    with pytest.raises(UsageError, match="needs a network with negatives"):
        ReverseAttack(nn.Identity())
    with pytest.raises(UsageError, match="ReverseAttack needs steps"):
        ReverseAttack(Sides(), eps=0.0)
