"""The VAE at stride 8: a quarter of the places and of the work."""

from __future__ import annotations

import pytest
import torch

from alu import models
from alu.errors import UsageError
from alu.purifiers import LatentVAE
from alu.training.recipes import seeded
from alu.training.recipes.own import small_vae, stride_of
from tests.contracts.parts import images_like


@pytest.mark.parametrize("stride", [4, 8])
def test_code_and_images_have_the_sizes_that_the_stride_says(stride: int) -> None:
    network = models.vae(latent=6, width=16, stride=stride)
    mean, logvar = network.encode(images_like(2, (3, 32, 48)))
    assert mean.shape == logvar.shape == (2, 6, 32 // stride, 48 // stride)
    assert network.decode(mean).shape == (2, 3, 32, 48)
    again = models.rebuild(network.architecture)  # type: ignore[arg-type]
    again.load_state_dict(network.state_dict())
    assert again.stride == stride


def test_sides_that_the_stride_does_not_divide_are_padded() -> None:
    network = seeded(lambda: models.vae(latent=8, width=16, stride=8), 0)
    images = images_like(2, (3, 30, 45))
    assert LatentVAE(network, steps=2)(images).shape == images.shape


def test_other_strides_are_refused() -> None:
    with pytest.raises(UsageError, match="A VAE has a stride of 4 or 8; it was given 16"):
        models.vae(stride=16)


@pytest.mark.parametrize(
    ("shape", "stride"), [((3, 32, 32), 4), ((3, 128, 128), 4), ((3, 224, 224), 8), ((1, 96, 256), 8)]
)
def test_large_pictures_get_the_larger_stride_and_as_much_code(shape: tuple[int, int, int], stride: int) -> None:
    assert stride_of(shape) == stride
    channels, height, width = shape
    network = small_vae(channels, stride)
    values = network.latent * (height // stride) * (width // stride)  # type: ignore[operator]
    assert values == max(10, round(16 * channels / 3)) * height * width // 16


def test_a_pass_costs_a_third() -> None:
    """Multiplications of the convolutions, counted; a code as large as before costs what a quarter leaves out."""

    def cost(stride: int) -> int:
        network, total = small_vae(3, stride).eval(), 0

        def count(module: torch.nn.Module, inputs: object, output: torch.Tensor) -> None:
            nonlocal total
            total += output[0, 0].numel() * module.weight.numel()  # type: ignore[union-attr, operator]

        for part in network.modules():
            if isinstance(part, torch.nn.Conv2d):
                part.register_forward_hook(count)
        with torch.no_grad():
            network(images_like(1, (3, 224, 224)))
        return total

    assert 0.25 < cost(8) / cost(4) < 0.4
