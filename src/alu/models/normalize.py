"""Normalize: the layer that belongs inside a classifier, so that images outside it stay in [0, 1]."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from alu.errors import InputError

CIFAR10 = ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


class Normalize(nn.Module):
    """A layer that returns (images - mean) / std, channel by channel.

    Parameters
    ----------
    mean, std
        One value for each channel.

    Examples
    --------
    >>> network = torch.nn.Sequential(alu.models.Normalize([0.5] * 3, [0.25] * 3), alu.models.resnet20())
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        # Not saved with the weights: they are settings, and third-party checkpoints do not hold them.
        self.register_buffer("mean", torch.tensor(list(mean)).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(list(std)).view(1, -1, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Normalised images, same shape."""
        if images.shape[-3] != self.mean.shape[1]:  # which would be broadcast silently
            raise InputError(
                f"This classifier normalises {self.mean.shape[1]} channels; the images have {images.shape[-3]}. Give "
                f"it images [N, {self.mean.shape[1]}, H, W]."
            )
        return (images - self.mean) / self.std


def per_channel(values: Sequence[float], channels: int) -> list[float]:
    """Published statistics where there is one per channel; their average for any other number of channels."""
    return list(values) if len(values) == channels else [sum(values) / len(values)] * channels
