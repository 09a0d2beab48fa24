"""The regime of the paper's figures: a VAE whose decoder has no room for a perturbation and whose encoder is deep, and
the classifier that is trained on its outputs."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alu import data, models
from alu.models.deep_vae import CONVERGING, PLACE, DeepVAE
from alu.purifiers import PCA
from alu.rng import generator
from alu.training.objectives import Autoencoding
from alu.training.purified import Unified
from alu.training.recipes.base import Recipe, bundled
from alu.training.settings import Settings

FITTED_ON = 10_000
"""Images of which principal directions are computed."""


CODE = 512
"""Values of the code. With 256 every attacked image was flagged and too few were right; with 512 both were near."""


def _network(images: data.Dataset) -> nn.Module:
    """The deep VAE at its start. Its linear decoder stays what it is; encoder and correction are trained."""
    network = models.deep_vae(code=CODE, encoder="whitened", width=24, refine=16)
    assert isinstance(network, DeepVAE)
    if len(images) > CODE:  # a listing builds networks without images
        principal(network, images.draw(min(FITTED_ON, len(images))).images)
    network.linear.requires_grad_(False)
    return network


def principal(network: DeepVAE, images: Tensor) -> DeepVAE:
    """The network with principal directions of these images as its linear decoder: of whole images for a dense code, of
    the places for a spatial one; and with those of blocks of pixels as the axes of a whitened encoder.

    Directions are orthonormal, so that one step of rate 1/2 on the squared error is the best code of the linear part.
    """
    if network.whitened:
        axes = network.encoder[1]
        assert isinstance(axes, nn.Conv2d)
        blocks = F.pixel_unshuffle(images, 2)
        with torch.no_grad():
            axes.weight.copy_(PCA(blocks.shape[1]).fit(_places(blocks, 1)).components_[:, :, None, None])
    pictures = _places(images, PLACE) if network.layout == "spatial" else images
    put(network, PCA(network.code // network.places).fit(pictures))
    return network


def _places(images: Tensor, side: int) -> Tensor:
    """Some of the squares of this side that make up the images [N, channels, side, side]."""
    squares = images.unfold(2, side, side).unfold(3, side, side).permute(0, 2, 3, 1, 4, 5).flatten(0, 2)
    chosen = torch.randperm(len(squares), generator=generator(0, "places"))[: 3 * FITTED_ON]
    return squares[chosen]


def put(network: DeepVAE, directions: PCA) -> None:
    """Give the linear decoder these directions, and their mean as its picture of a code of zeros."""
    linear, shape = network.linear, network.linear.weight.shape
    assert linear.bias is not None
    with torch.no_grad():
        if isinstance(linear, nn.Linear):
            linear.weight.copy_(directions.components_.T)
            linear.bias.copy_(directions.mean_)
        else:
            linear.weight.copy_(directions.components_.view(shape))
            # One mean for each channel: places do not differ much from pixel to pixel.
            linear.bias.copy_(directions.mean_.view(shape[1], -1).mean(1))


VAE, UNIFIED = "cifar10-vae-deep", "cifar10-unified-deep"
DEEP = {
    VAE: Recipe(
        f"A VAE in the regime of the paper's figures: dense code of {CODE} values, whitened deep encoder, decoder of "
        "principal directions with a small correction.",
        "cifar10",
        _network,
        partial(Autoencoding, sigma=0.02),
        Settings(epochs=24, batch_size=128, optimizer="adam", lr=2e-3, warmup=0.1, augment="flip", average=0.999),
        "vae",
        differs="The paper shows its VAE as a picture only; this one was found by a search for its figures.",
    ),
    UNIFIED: Recipe(
        f"Unified ALU on `{VAE}`: `cifar10-standard`, fine-tuned on its outputs, half of them after latent steps.",
        "cifar10",
        bundled("cifar10-standard"),
        lambda: Unified(models.load(VAE), steps=4, stepped=0.5, latent=CONVERGING),
        Settings(epochs=4, batch_size=128, lr=0.05, weight_decay=5e-4, warmup=0.1, augment="crop-flip", average=0.998),
        needs=("cifar10-standard", VAE),
        differs="The paper trains it from scratch, on reconstructions.",
    ),
}
