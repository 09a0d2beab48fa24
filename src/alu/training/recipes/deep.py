"""The regime of the paper's figures: a VAE whose decoder has no room for a perturbation and whose encoder is deep, and
the classifier that is trained on its outputs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alu.models.deep_vae import PLACE, DeepVAE
from alu.purifiers import PCA
from alu.rng import generator

FITTED_ON = 10_000
"""Images of which principal directions are computed."""


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


def cut(whole: DeepVAE, smaller: DeepVAE) -> DeepVAE:
    """The smaller network with the first directions of the whole one and what its encoder says of them."""
    have, want = whole.code // whole.places, smaller.code // smaller.places
    rows = torch.cat([torch.arange(want), have + torch.arange(want)])  # means, then log-variances
    state = dict(whole.state_dict())
    *_, last = (name.rpartition(".")[0] for name in smaller.encoder.state_dict())
    for part in ("weight", "bias"):
        state[f"encoder.{last}.{part}"] = state[f"encoder.{last}.{part}"][rows]
    directions = state["linear.weight"]
    state["linear.weight"] = directions[:want] if smaller.layout == "spatial" else directions[:, :want]
    smaller.load_state_dict(state)
    return smaller
