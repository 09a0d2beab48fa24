"""A trained denoiser as a purifier (HGD, Liao et al. 2018; the paper's table 1)."""

from __future__ import annotations

from typing import Any, Self

import torch.nn.functional as F
from torch import Tensor, nn

from alu.errors import UsageError
from alu.models.architecture import rebuild
from alu.models.cards import bundled_name, load
from alu.purifiers.base import Purifier


class UNet(Purifier):
    """One pass of a denoising network; `network` is a module from images to images, or a bundled name."""

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

    def description(self) -> dict[str, Any]:
        """The network's bundled name or architecture."""
        name = bundled_name(self.network)
        if name is None and not hasattr(self.network, "architecture"):
            raise UsageError(
                f"A UNet purifier around {type(self.network).__name__} cannot be saved: alu cannot rebuild that class. "
                "Use alu.models.unet(...), or keep the defence in memory."
            )
        return {"name": "UNet", "network": name or self.network.architecture}

    @classmethod
    def from_description(cls, settings: dict[str, Any]) -> Self:
        """The purifier around the bundled network, or around an untrained one whose weights follow."""
        network = settings["network"]
        return cls(network if isinstance(network, str) else rebuild(network))
