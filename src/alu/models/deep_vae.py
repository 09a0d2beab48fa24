"""A VAE with a small code, dense or spatial, a deep encoder, and a decoder that starts as a linear map."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from alu.errors import InputError, UsageError, check_choice
from alu.models.architecture import architecture
from alu.models.resnet import BasicBlock
from alu.models.vae import SmoothBlock

Layout = Literal["dense", "spatial"]
Encoder = Literal["whitened", "deep", "shallow"]
CONVERGING: dict[str, Any] = {"solver": "gd", "lr": 0.25, "schedule": "constant"}
"""Settings of `LatentVAE` with which it comes near the best code: with orthonormal directions every step of this rate
goes half of the rest of the way."""
FIRST_LOGVAR = -6.0
"""Noise of a twentieth: at first the encoder learns the mean undisturbed."""
PLACE = 4
"""Pixels along a side of what one place of a spatial code describes; places do not overlap."""


def folded(inputs: int, outputs: int) -> list[nn.Module]:
    """Half the side, and nothing lost on the way: strides and pooling would make a code learn slowly."""
    return [nn.PixelUnshuffle(2), nn.Conv2d(4 * inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]


def deep_encoder(channels: int, size: int, outputs: int, width: int, layout: Layout) -> nn.Sequential:
    """Residual blocks with batch normalisation: a linear layer at an eighth of the side makes a dense code, a
    convolution at a quarter a spatial one."""
    begin = [nn.PixelUnshuffle(2), nn.Conv2d(4 * channels, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)]
    half = [BasicBlock(width, width, 1), *folded(width, 2 * width)]
    quarter = [BasicBlock(2 * width, 2 * width, 1) for _ in range(2)]
    if layout == "spatial":
        last = [BasicBlock(2 * width, 2 * width, 1), nn.Conv2d(2 * width, outputs, 1)]
        return nn.Sequential(*begin, *half, *quarter, *last)
    eighth = [BasicBlock(4 * width, 4 * width, 1) for _ in range(2)]
    last = [nn.Flatten(), nn.Linear(4 * width * (size // 8) ** 2, outputs)]
    return nn.Sequential(*begin, *half, *quarter, *folded(2 * width, 4 * width), *eighth, *last)


def shallow_encoder(channels: int, size: int, outputs: int, width: int, layout: Layout) -> nn.Sequential:
    """Two convolutions at a quarter of the side, without normalisation; a linear layer for a dense code."""
    begin = [nn.PixelUnshuffle(PLACE), nn.Conv2d(PLACE**2 * channels, 2 * width, 3, 1, 1), nn.SiLU()]
    if layout == "spatial":
        return nn.Sequential(*begin, nn.Conv2d(2 * width, outputs, 3, 1, 1))
    rest = [nn.Conv2d(2 * width, width, 3, 1, 1), nn.SiLU(), nn.Flatten()]
    return nn.Sequential(*begin, *rest, nn.Linear(width * (size // PLACE) ** 2, outputs))


def whitened_encoder(channels: int, size: int, outputs: int, width: int, layout: Layout) -> nn.Sequential:
    """A deep encoder that sees blocks of 2 x 2 pixels turned to other axes and scaled to unit variance there.

    With the blocks' principal directions as axes that is whitening, as networks that train fast begin: fine detail
    counts as much as coarse. The axes are not trained.
    """
    deep = deep_encoder(channels, size, outputs, width, layout)
    axes = nn.Conv2d(4 * channels, 4 * channels, 1, bias=False).requires_grad_(False)
    with torch.no_grad():
        axes.weight.copy_(torch.eye(4 * channels)[:, :, None, None])
    first, *others = deep
    return nn.Sequential(first, axes, nn.BatchNorm2d(4 * channels, affine=False), *others)


ENCODERS = {"whitened": whitened_encoder, "deep": deep_encoder, "shallow": shallow_encoder}


class DeepVAE(nn.Module):
    """Encoder and decoder for images of one size in [0, 1].

    `encode(images) -> (mean, logvar)`, each [N, code] or, spatial, [N, code / places, H/4, W/4]. `decode(code)` is a
    linear map plus, where `refine` is not 0, a convolutional correction that starts at zero. The decoder has no
    normalisation layer and no last non-linearity: with `refine` 0 its output is linear in the code, so that the best
    code is a projection. Outputs may leave [0, 1] a little; purifiers clip.
    """

    def __init__(
        self, channels: int, size: int, code: int, layout: Layout, encoder: Encoder, width: int, refine: int
    ) -> None:
        super().__init__()
        check_choice("layout", layout, get_args(Layout))
        check_choice("encoder", encoder, get_args(Encoder))
        if size < 8 or size % 8:
            raise UsageError(f"A deep VAE needs images whose side is a multiple of 8; it was given a size of {size}.")
        self.places = (size // PLACE) ** 2 if layout == "spatial" else 1
        if code < 1 or code % self.places:
            raise UsageError(
                f"A {layout} code of {size} x {size} images has a multiple of {self.places} values; it was given "
                f"{code}."
            )
        # A smaller or larger picture does not fit a dense layer: the stride makes purifiers pad up to one size.
        self.channels, self.code, self.layout, self.size, self.stride = channels, code, layout, size, size
        latent = code // self.places
        self.encoder = ENCODERS[encoder](channels, size, latent, width, layout)
        self.whitened = encoder == "whitened"
        # The best variance depends on the decoder, not on the image, where the decoder is nearly linear.
        self.logvar = nn.Parameter(torch.full((latent,), FIRST_LOGVAR))
        self.linear: nn.Linear | nn.ConvTranspose2d = (
            nn.ConvTranspose2d(latent, channels, PLACE, PLACE)
            if layout == "spatial"
            else nn.Linear(code, channels * size * size)
        )
        with torch.no_grad():
            assert self.linear.bias is not None
            self.linear.bias.fill_(0.5)  # a code of zeros is gray
        self.refine = self._correction(latent, refine) if refine else None

    def _correction(self, latent: int, width: int) -> nn.Sequential:
        """The part of the decoder that is not linear; its last layer is zero at first."""
        side = self.size // PLACE
        last = nn.Conv2d(width // 2, 4 * self.channels, 3, 1, 1)
        nn.init.zeros_(last.weight)
        assert last.bias is not None
        nn.init.zeros_(last.bias)
        first = (
            [nn.Conv2d(latent, width, 3, 1, 1)]
            if self.layout == "spatial"
            else [nn.Linear(latent, width * side * side), nn.Unflatten(1, (width, side, side))]
        )
        grow = [SmoothBlock(width), nn.Conv2d(width, 4 * (width // 2), 1), nn.PixelShuffle(2)]
        return nn.Sequential(*first, *grow, SmoothBlock(width // 2), nn.SiLU(), last, nn.PixelShuffle(2))

    def encode(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of the code; the latter is the same for every image and place."""
        if tuple(images.shape[1:]) != (self.channels, self.size, self.size):
            raise InputError(
                f"This VAE reads images of shape {[self.channels, self.size, self.size]}; these have "
                f"{list(images.shape[1:])}. Scale them."
            )
        mean: Tensor = self.encoder(images - 0.5)
        logvar = self.logvar.clamp(-12.0, 4.0).view(-1, *[1] * (mean.ndim - 2))
        return mean, logvar.expand_as(mean)

    def decode(self, code: Tensor) -> Tensor:
        """Images [N, channels, size, size], about in [0, 1]."""
        images: Tensor = self.linear(code).view(-1, self.channels, self.size, self.size)
        return images if self.refine is None else images + self.refine(code)

    def forward(self, images: Tensor) -> Tensor:
        """Reconstructions through the encoder's mean."""
        return self.decode(self.encode(images)[0])


@architecture
def deep_vae(
    channels: int = 3, size: int = 32, code: int = 256, layout: Layout = "dense", encoder: Encoder = "deep",
    width: int = 24, refine: int = 0,
) -> DeepVAE:  # fmt: skip
    """A VAE whose decoder's range is small and whose encoder is deep: the regime of the paper's figures.

    Parameters
    ----------
    channels, size
        Channels and side of the images.
    code, layout
        How many values a code has in all, and whether they are "dense" or lie in "spatial" places of 4 x 4 pixels.
    encoder, width
        "deep" (residual, batch-normalised), "whitened" (the same behind whitened pixels) or "shallow", and the channels
        of its first layer.
    refine
        Channels of the convolutions that correct the linear decoder; 0 leaves it linear.

    Examples
    --------
    >>> mean, logvar = alu.models.deep_vae(size=32, code=5, width=8).encode(images)
    """
    return DeepVAE(channels, size, code, layout, encoder, width, refine)
