"""Views of images against pixels worked out by hand."""

from __future__ import annotations

import torch

from alu.purifiers.views import CHOICES, View
from alu.rng import generator
from tests.conftest import smooth_images


def test_the_mirrored_middle_of_two_pixels() -> None:
    # Three quarters of the width, mirrored: the left pixel is sampled at 7/8 of the way to the right one.
    seen = View.central(torch.zeros(1)).of(torch.tensor([[[[0.2, 1.0]]]]))
    torch.testing.assert_close(seen, torch.tensor([[[[0.2 / 8 + 7 / 8, 0.2 * 7 / 8 + 1 / 8]]]]))


def choices(*values: float) -> torch.Tensor:
    return torch.tensor([values])


def test_a_whole_view_is_the_image_a_mirror_turns_it_and_contrast_stretches_it() -> None:
    images = smooth_images(1).float()
    torch.testing.assert_close(View.drawn(choices(-1, 0, 0, 0.5, 0)).of(images), images)
    torch.testing.assert_close(View.drawn(choices(-1, 1, -1, -0.5, 0)).of(images), images.flip(3))
    lit = View.drawn(choices(-1, 0, 0, 0.5, 0.5), light=0.2).of(images)
    torch.testing.assert_close(lit, 0.5 + 1.1 * (images - 0.5))


def test_the_smallest_crop_reaches_into_every_corner_and_no_further() -> None:
    ramp = torch.linspace(0, 1, 32).view(1, 1, 1, 32).expand(1, 1, 32, 32)
    left = View.drawn(choices(1, -1, 0, 0.5, 0), smallest=0.5).of(ramp)
    right = View.drawn(choices(1, 1, 0, 0.5, 0), smallest=0.5).of(ramp)
    assert float(left.max()) < 0.5 < float(right.min())
    assert float(left.min()) < 0.02
    assert float(right.max()) > 0.98
    low = View.drawn(choices(1, 0, 1, 0.5, 0), smallest=0.5).of(ramp.transpose(2, 3))
    assert float(low.min()) > 0.5


def test_every_image_has_its_own_view_and_passes_its_gradient() -> None:
    images = smooth_images(4).requires_grad_(True)
    drawn = 2 * torch.rand((4, CHOICES), generator=generator(0, "views"), dtype=torch.float64) - 1
    seen = View.drawn(drawn).of(images)
    single = torch.cat([View.drawn(drawn[at : at + 1]).of(images[at : at + 1]) for at in range(4)])
    torch.testing.assert_close(seen, single)
    (gradient,) = torch.autograd.grad(seen.sum(), images)
    assert bool((gradient.flatten(1).abs().sum(1) > 0).all())
