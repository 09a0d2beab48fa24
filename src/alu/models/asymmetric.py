"""The classifier of Asymmetric Unified ALU: it reads an inner layer of a VAE's decoder instead of an image."""

from __future__ import annotations

from torch import Tensor, nn

from alu.errors import UsageError
from alu.models.architecture import architecture
from alu.models.resnet import BasicBlock, ResNet
from alu.models.vae import VAE, padded_to

INNER_LAYERS = 6
"""Decoder layers that the classifier uses: up to the activation at half resolution."""


class Asymmetric(nn.Module):
    """Logits from the features h(z) of a frozen VAE's decoder at half resolution.

    It classifies images [N, C, H, W] by h(E(x)), and features [N, F, H/2, W/2], which `alu.purifiers.InnerVAE` returns,
    directly. `encode` and `decode` are the VAE's, so that the network is also the VAE of its own purifier.
    """

    stride = VAE.stride

    def __init__(self, num_classes: int, channels: int, latent: int, vae_width: int, width: int) -> None:
        super().__init__()
        features = vae_width // 2
        if features == channels:
            raise UsageError(
                f"asymmetric distinguishes features from images by their number of channels; with "
                f"vae_width={vae_width} both have {channels}. Use a wider VAE."
            )
        self.channels = channels
        self.vae = VAE(channels, latent, vae_width).requires_grad_(False)
        self.head = ResNet(
            BasicBlock, (2, 2, 2), (width, 2 * width, 4 * width), num_classes, channels=features, stem_stride=1,
            mean=[0.0] * features, std=[1.0] * features,
        )  # fmt: skip

    def encode(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of the code."""
        return self.vae.encode(images)

    def decode(self, code: Tensor) -> Tensor:
        """Images of a code."""
        return self.vae.decode(code)

    def inner(self, code: Tensor) -> Tensor:
        """The decoder's features at half resolution, [N, F, H/2, W/2]."""
        features: Tensor = self.vae.decoder[:INNER_LAYERS](code)
        return features

    def forward(self, images: Tensor) -> Tensor:
        """Logits [N, num_classes] of images or of features."""
        if images.shape[1] == self.channels:
            images = self.inner(self.encode(padded_to(images, self.stride))[0])
        logits: Tensor = self.head(images)
        return logits


@architecture
def asymmetric(
    num_classes: int = 10, channels: int = 3, latent: int = 16, vae_width: int = 96, width: int = 32
) -> Asymmetric:
    """A VAE and a three-stage residual head on its decoder's features; 29 M multiply-adds in the head at 32 pixels.

    Parameters
    ----------
    num_classes, width
        Classes, and channels of the first stage of the head.
    channels, latent, vae_width
        Channels of the images, of the latent code, and of the VAE's widest layers.

    Examples
    --------
    >>> logits = alu.models.asymmetric(num_classes=5, width=4)(images)
    """
    return Asymmetric(num_classes, channels, latent, vae_width, width)
