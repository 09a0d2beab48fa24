"""A U-Net that predicts the perturbation and takes it away (HGD, Liao et al. 2018)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alu.models.architecture import architecture


class ConvPair(nn.Sequential):
    """Two 3x3 convolutions, each with batch normalisation and ReLU."""

    def __init__(self, inputs: int, outputs: int) -> None:
        layers: list[nn.Module] = []
        for channels in (inputs, outputs):
            layers += [nn.Conv2d(channels, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
        super().__init__(*layers)


class UNet(nn.Module):
    """Denoised images in [0, 1] from images [N, C, H, W]; height and width divisible by 2 ** (levels - 1)."""

    def __init__(self, channels: int, width: int, levels: int) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(levels)]
        self.stride = 2 ** (levels - 1)
        self.down = nn.ModuleList(
            ConvPair(inputs, outputs) for inputs, outputs in zip([channels, *widths], widths, strict=False)
        )
        self.up = nn.ModuleList(
            ConvPair(deep + shallow, shallow) for deep, shallow in zip(widths[:0:-1], widths[-2::-1], strict=True)
        )
        self.last = nn.Conv2d(width, channels, 1)
        # Starts as the identity: an untrained denoiser changes nothing.
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias if self.last.bias is not None else self.last.weight)

    def forward(self, images: Tensor) -> Tensor:
        """Images with the predicted perturbation taken away, clipped to [0, 1]."""
        kept: list[Tensor] = []
        features = images
        for level, pair in enumerate(self.down):
            features = pair(F.avg_pool2d(features, 2) if level else features)
            kept.append(features)
        kept.pop()
        for pair in self.up:
            features = pair(torch.cat([F.interpolate(features, scale_factor=2.0), kept.pop()], dim=1))
        noise: Tensor = self.last(features)
        return (images - noise).clamp(0.0, 1.0)


@architecture
def unet(channels: int = 3, width: int = 24, levels: int = 3) -> UNet:
    """The bundled denoiser's architecture.

    Parameters
    ----------
    channels, width, levels
        Channels of the images and of the first level, and how many levels there are.

    Examples
    --------
    >>> denoised = alu.models.unet(width=4, levels=2)(images)
    """
    return UNet(channels, width, levels)
