"""The regime of the paper's figures: a VAE whose decoder has no room for a perturbation and whose encoder is deep, and
the classifier that is trained on its outputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from alu.models.deep_vae import PLACE, DeepVAE
from alu.purifiers import PCA
from alu.rng import generator

FITTED_ON = 10_000
"""Images of which principal directions are computed."""


def principal(network: DeepVAE, images: Tensor) -> DeepVAE:
    """The network with principal directions of these images as its linear decoder: of whole images for a dense code, of
    the places for a spatial one. They are orthonormal, so that one step of rate 1/2 on the squared error is the best
    code of the linear part."""
    shape = (network.channels, PLACE, PLACE) if network.layout == "spatial" else tuple(images.shape[1:])
    if network.layout == "spatial":
        images = images.unfold(2, PLACE, PLACE).unfold(3, PLACE, PLACE).permute(0, 2, 3, 1, 4, 5).flatten(0, 2)
        images = images[torch.randperm(len(images), generator=generator(0, "places"))[: 3 * FITTED_ON]]
    put(network, PCA(network.code // network.places).fit(images.reshape(-1, *shape)))
    return network


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
            # A place has one colour for each channel as its mean: the directions cannot add another to each pixel.
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
