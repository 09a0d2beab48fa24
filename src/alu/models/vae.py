"""A convolutional VAE with a spatial latent code; one decoder pass is cheap on a CPU."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alu.errors import UsageError
from alu.models.architecture import architecture

STRIDES = (4, 8)


def padded_to(images: Tensor, stride: int) -> Tensor:
    """Images whose last row and column are repeated until height and width are multiples of `stride`."""
    down, right = -images.shape[2] % stride, -images.shape[3] % stride
    return F.pad(images, (0, right, 0, down), mode="replicate") if down or right else images


class SmoothBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut, with SiLU: smooth, so that second derivatives of the decoder exist."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, 1, 1)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1)

    def forward(self, features: Tensor) -> Tensor:
        """Features after the block."""
        out: Tensor = features + self.conv2(F.silu(self.conv1(F.silu(features))))
        return out


class VAE(nn.Module):
    """Encoder and decoder for images in [0, 1].

    `encode(images) -> (mean, logvar)`, each [N, latent, H/stride, W/stride]; `decode(code) -> images` in (0, 1).
    No layer works at full resolution: the first and the last convolution fold 2x2 pixels into channels, or 4x4 at
    stride 8, which is what makes a latent step cheap. There is no normalisation layer, so an image never depends on
    its batch.
    """

    stride = 4

    def __init__(self, channels: int, latent: int, width: int, stride: int = 4) -> None:
        super().__init__()
        if stride not in STRIDES:
            raise UsageError(f"A VAE has a stride of {' or '.join(map(str, STRIDES))}; it was given {stride}.")
        self.channels, self.latent, self.width, self.stride = channels, latent, width, stride
        half, fold = width // 2, stride // 2
        self.encoder = nn.Sequential(
            nn.PixelUnshuffle(fold),
            nn.Conv2d(fold * fold * channels, half, 3, 1, 1),
            SmoothBlock(half),
            nn.PixelUnshuffle(2),
            nn.Conv2d(4 * half, width, 1),
            SmoothBlock(width),
            nn.SiLU(),
            nn.Conv2d(width, 2 * latent, 3, 1, 1),
        )
        self.decoder = nn.Sequential(
            nn.Conv2d(latent, width, 3, 1, 1),
            SmoothBlock(width),
            nn.Conv2d(width, 4 * half, 1),
            nn.PixelShuffle(2),
            SmoothBlock(half),
            nn.SiLU(),
            nn.Conv2d(half, fold * fold * channels, 3, 1, 1),
            nn.PixelShuffle(fold),
        )

    def encode(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of the code, each [N, latent, H/stride, W/stride]."""
        mean, logvar = self.encoder(images - 0.5).chunk(2, dim=1)
        # Bounded, so that one odd image cannot make the loss infinite.
        return mean, logvar.clamp(-12.0, 4.0)

    def decode(self, code: Tensor) -> Tensor:
        """Images in (0, 1), [N, channels, stride h, stride w] for a code [N, latent, h, w]."""
        # Four times the slope: pixels at 0 or 1 stay reachable with moderate activations.
        return torch.sigmoid(4.0 * self.decoder(code))

    def decode_with_features(self, code: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Images of a code, and what the decoder holds on the way: [N, width, h, w] and [N, width / 2, 2 h, 2 w]."""
        early = self.decoder[:2](code)
        late = self.decoder[2:5](early)
        return torch.sigmoid(4.0 * self.decoder[5:](late)), early, late

    def forward(self, images: Tensor) -> Tensor:
        """Reconstructions through the encoder's mean."""
        return self.decode(self.encode(images)[0])


@architecture
def vae(channels: int = 3, latent: int = 16, width: int = 96, stride: int = 4) -> VAE:
    """The bundled VAE's architecture, for images whose height and width are divisible by its stride.

    Parameters
    ----------
    channels, latent, width
        Channels of the images, of the latent code, and of the widest layers.
    stride
        4, or 8 for large images: a code of a quarter as many places, and about a quarter of the work for each pixel.

    Examples
    --------
    >>> mean, logvar = alu.models.vae(latent=2, width=8).encode(images)
    """
    return VAE(channels, latent, width, stride)
