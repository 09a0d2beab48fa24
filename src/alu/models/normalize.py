"""Normalize: the layer that belongs inside a classifier, so that images outside it stay in [0, 1]; usual constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from alu.errors import InputError, UsageError

CIFAR10 = ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
BYTE = 1 / 255
"""The standard deviation that turns [0, 1] into 0 to 255."""


class Normalize(nn.Module):
    """A layer that returns (images - mean) / std, channel by channel.

    Parameters
    ----------
    mean, std
        One value for each channel.
    bgr
        Whether the channels are reversed first, for a network that was trained on blue, green, red; `mean` and `std`
        are then in that order too.

    Examples
    --------
    >>> network = torch.nn.Sequential(alu.models.Normalize([0.5] * 3, [0.25] * 3), alu.models.resnet20())
    """

    mean: Tensor
    std: Tensor
    order: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float], bgr: bool = False) -> None:
        super().__init__()
        if len(mean) != len(std) or not mean or not all(value > 0 for value in std):
            raise UsageError(
                "Normalize needs a mean and a standard deviation above 0 for each channel; it was given "
                f"mean={list(mean)} and std={list(std)}."
            )
        # Not saved with the weights: they are settings, and third-party checkpoints do not hold them.
        self.register_buffer("mean", torch.tensor(list(mean)).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(list(std)).view(1, -1, 1, 1), persistent=False)
        self.bgr = bgr
        if bgr:  # a tensor, so that the hash of the weights knows of it
            self.register_buffer("order", torch.arange(len(mean)).flip(0), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Normalised images, same shape."""
        if images.shape[-3] != self.mean.shape[1]:  # which would be broadcast silently
            raise InputError(
                f"This classifier normalises {self.mean.shape[1]} channels; the images have {images.shape[-3]}. Give "
                f"it images [N, {self.mean.shape[1]}, H, W]."
            )
        return ((images.flip(-3) if self.bgr else images) - self.mean) / self.std

    def inverse(self, values: Tensor) -> Tensor:
        """The images that `forward` turns into these values."""
        images = values * self.std + self.mean
        return images.flip(-3) if self.bgr else images


@dataclass(frozen=True)
class Constants:
    """A usual normalisation, of any number of channels: what `Normalize` takes, and how a sentence calls the result."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    words: str
    bgr: bool = False

    def layer(self, channels: int) -> Normalize:
        """The layer for so many channels."""
        return Normalize(per_channel(self.mean, channels), per_channel(self.std, channels), self.bgr and channels == 3)


NORMALISATIONS = {
    "none": Constants((0.0,), (1.0,), "the values in [0, 1] as they are"),
    "half": Constants((0.5,), (0.5,), "values in [-1, 1] (mean and standard deviation 0.5)"),
    "imagenet": Constants(*IMAGENET, "ImageNet's mean and standard deviation"),
    "cifar10": Constants(*CIFAR10, "CIFAR-10's mean and standard deviation"),
    "255": Constants((0.0,), (BYTE,), "values from 0 to 255"),
    "caffe": Constants(
        (103.939 / 255, 116.779 / 255, 123.68 / 255), (BYTE,) * 3,
        "values from 0 to 255 less Caffe's mean, in the order blue, green, red", bgr=True,
    ),
}  # fmt: skip
"""What networks are trained with, by the name that stands behind "@" in a classifier's name."""


def per_channel(values: Sequence[float], channels: int) -> list[float]:
    """Published statistics where there is one per channel; their average for any other number of channels."""
    return list(values) if len(values) == channels else [sum(values) / len(values)] * channels
