"""A classifier behind a denoiser: what reaches the classifier, and what is proven about the two together."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import alu
from alu.errors import UsageError
from alu.models import Denoised, Smoothed, unet, vae
from tests.linear import Linear, linear_data
from tests.toys import Toy, toy_images


class Kept(nn.Module):
    """Answers as the toy does and keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.toy, self.asked = Toy(), torch.empty(0)

    def forward(self, images: Tensor) -> Tensor:
        self.asked = images
        answer: Tensor = self.toy(images)
        return answer


def test_the_classifier_gets_what_the_denoiser_makes() -> None:
    classifier, images = Kept(), toy_images(3) + 0.7
    Denoised(lambda at: 0.5 * at, classifier)(images)
    torch.testing.assert_close(classifier.asked, 0.5 * images)
    Denoised(alu.purifiers.Identity(), classifier)(images)
    torch.testing.assert_close(classifier.asked, images.clamp(0, 1), msg="a purifier refuses what is beyond [0, 1]")


def test_a_denoiser_that_halves_the_distance_does_not_change_the_boundary() -> None:
    # Both sides move towards 1/2, where the boundary is: the same answers, so the same certificates.
    data = linear_data(6)
    halved = Denoised(lambda at: 0.5 + 0.5 * (at - 0.5), Linear())
    one, other = (Smoothed(model, sigma=0.25).certify(data.images, n=500) for model in (Linear(), halved))
    torch.testing.assert_close(one.radii, other.radii)
    assert torch.equal(one.labels, other.labels)


def test_a_denoiser_can_only_prove_what_the_two_answer_together() -> None:
    data = linear_data(6)
    moved = Denoised(lambda at: 1 - at, Linear())
    labels, _ = Smoothed(moved, sigma=0.25).certify(data.images, n=500)
    assert torch.equal(labels[labels >= 0], 1 - data.own[labels >= 0])


@pytest.mark.parametrize("denoiser", [unet(width=8, levels=3), vae(latent=2, width=8)])
def test_images_of_any_size(denoiser: nn.Module) -> None:
    class Sized(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            assert images.shape[2:] == (9, 7)
            return images.mean((2, 3))

    assert Denoised(denoiser.eval(), Sized())(torch.rand(2, 3, 9, 7)).shape == (2, 3)


def test_gradients_reach_the_image() -> None:
    leaf = toy_images(2).requires_grad_(True)
    (gradient,) = torch.autograd.grad(Denoised(alu.purifiers.Blur(0.5), Toy())(leaf).sum(), leaf)
    assert float(gradient.abs().max()) > 0


def test_bad_denoisers_are_one_sentence() -> None:
    with pytest.raises(UsageError, match=r"Denoised needs a denoiser .* Flatten returned \[2, 192\]"):
        Denoised(nn.Flatten(), Toy())(toy_images(2))
    with pytest.raises(UsageError, match="There is no bundled model 'cifar10-denoyser'"):
        Denoised("cifar10-denoyser", Toy())
