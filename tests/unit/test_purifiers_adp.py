"""ADP on denoisers whose scores are known: how far a step goes, and when it stops."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from alu.errors import UsageError
from alu.purifiers import ADP
from tests.conftest import smooth_images


class Gaussian(nn.Module):
    """The exact denoiser of pixels that are N(mean, variance): how much of the way to the mean it goes is known."""

    def __init__(self, mean: float = 0.5, variance: float = 0.03) -> None:
        super().__init__()
        self.mean, self.variance = mean, variance

    def denoise(self, images: Tensor, level: Tensor | None) -> Tensor:
        noise = torch.tensor(0.25, dtype=images.dtype) if level is None else level[:, None, None, None]
        return images + noise**2 / (self.variance + noise**2) * (self.mean - images)


class Constant(nn.Module):
    """A denoiser whose score is the same everywhere: there is no mode."""

    def denoise(self, images: Tensor, level: Tensor | None) -> Tensor:
        return images + 0.01


@pytest.mark.parametrize("variance", [0.0, 0.03, 0.1])
def test_on_a_gaussian_each_step_goes_its_share_of_the_way_to_the_mean(variance: float) -> None:
    images = smooth_images(3)
    purifier = ADP(Gaussian(variance=variance), noise_level=0.02, steps=3, share=0.3, stop=0.0, draws=1)
    noisy = images + 0.02 * purifier.noise(images, "start")
    torch.testing.assert_close(purifier(images), 0.5 + 0.7**3 * (noisy - 0.5), rtol=0, atol=1e-9)


def test_one_whole_step_is_the_mean() -> None:
    images = smooth_images(2)
    purified = ADP(Gaussian(variance=0.0), steps=1, share=1.0, draws=1)(images)
    torch.testing.assert_close(purified, torch.full_like(images, 0.5), rtol=0, atol=1e-9)


def test_no_step_goes_beyond_the_denoised_image() -> None:
    images, network = smooth_images(2), Gaussian(variance=1.0)
    purifier = ADP(network, noise_level=0.02, steps=1, share=0.3, draws=1)
    noisy = images + 0.02 * purifier.noise(images, "start")
    torch.testing.assert_close(purifier(images), network.denoise(noisy, None))


def test_without_a_mode_ahead_a_step_is_one_whole_score() -> None:
    images = smooth_images(2)
    purifier = ADP(Constant(), noise_level=1e-6, steps=2, share=0.1, draws=1)
    torch.testing.assert_close(purifier(images), images + 0.02, rtol=0, atol=1e-5)


def test_an_image_whose_step_is_small_stays_while_others_go_on() -> None:
    images = torch.stack([torch.full((3, 8, 8), 0.52), torch.full((3, 8, 8), 0.9)]).double()
    # The first step would be 0.5 * 0.02 = 0.01 for the first image and 0.5 * 0.4 = 0.2 for the second.
    purified = ADP(Gaussian(), noise_level=1e-9, steps=1, share=0.5, stop=0.05, draws=1)(images)
    torch.testing.assert_close(purified[0], images[0], rtol=0, atol=1e-6)
    torch.testing.assert_close(purified[1], torch.full((3, 8, 8), 0.7).double(), rtol=0, atol=1e-6)


def test_without_steps_an_attackers_copy_makes_one_pass() -> None:
    images = smooth_images(2)
    purifier = ADP(Gaussian(variance=0.0), draws=1)
    purifier.steps = 0
    torch.testing.assert_close(purifier(images), torch.full_like(images, 0.5))


@pytest.mark.parametrize(
    "settings", [{"steps": 0}, {"share": 0.0}, {"share": 1.5}, {"draws": 0}, {"noise_level": 0.0}, {"stop": -1.0}]
)
def test_impossible_settings_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="ADP needs"):
        ADP(Gaussian(), **settings)  # type: ignore[arg-type]


def test_a_network_that_cannot_denoise_is_refused() -> None:
    with pytest.raises(UsageError, match=r"ADP needs a network with denoise\(images, level\)"):
        ADP(nn.Identity())
