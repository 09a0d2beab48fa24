"""A trained denoiser as a purifier (HGD, Liao et al. 2018; the paper's table 1)."""

from __future__ import annotations

from torch import Tensor, nn

from alu.models.cards import load
from alu.models.vae import padded_to
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
        output: Tensor = self.network(padded_to(images, int(getattr(self.network, "stride", 1))))
        return output[:, :, : images.shape[2], : images.shape[3]]
