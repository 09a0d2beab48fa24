"""A trained denoiser as a purifier (HGD, Liao et al. 2018; the paper's table 1)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from alu.models.cards import load
from alu.purifiers.base import Purifier


class UNet(Purifier):
    """One pass of a denoising network.

    Parameters
    ----------
    network
        A module from images to images, or the name of a bundled one.

    Examples
    --------
    >>> purified = alu.purifiers.UNet("cifar10-unet")(images)
    """

    def __init__(self, network: nn.Module | str) -> None:
        super().__init__()
        self.network = load(network) if isinstance(network, str) else network

    def run(self, images: Tensor) -> Tensor:
        """Denoised images."""
        stride = int(getattr(self.network, "stride", 1))
        height, width = images.shape[2:]
        down, right = -height % stride, -width % stride
        padded = F.pad(images, (0, right, 0, down), mode="replicate") if down or right else images
        output: Tensor = self.network(padded)
        return output[:, :, :height, :width]
