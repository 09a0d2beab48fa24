"""Purifiers without a model: identity, Gaussian blur, median, bit depth. Other purifiers are compared with them."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from alu.errors import UsageError
from alu.purifiers.base import Purifier, Traits


class Identity(Purifier):
    """Changes nothing: a defence around it is the bare classifier.

    Examples
    --------
    >>> torch.equal(alu.purifiers.Identity()(images), images)
    True
    """

    def run(self, images: Tensor) -> Tensor:
        """The images themselves."""
        return images


class Blur(Purifier):
    """Gaussian blur, edges reflected.

    Parameters
    ----------
    sigma
        Standard deviation in pixels.

    Examples
    --------
    >>> purified = alu.purifiers.Blur(sigma=0.5)(images)
    """

    def __init__(self, sigma: float = 0.5) -> None:
        super().__init__()
        if not sigma > 0:
            raise UsageError(f"Blur needs sigma above 0; it is {sigma}.")
        self.sigma = sigma

    def run(self, images: Tensor) -> Tensor:
        """Blurred images."""
        radius = max(1, math.ceil(3 * self.sigma))
        at = torch.arange(-radius, radius + 1, device=images.device, dtype=images.dtype)
        kernel = torch.exp(-0.5 * (at / self.sigma) ** 2)
        kernel = kernel / kernel.sum()
        channels = images.shape[1]
        padded = padded_by(images, radius)
        rows = F.conv2d(padded, kernel.view(1, 1, -1, 1).expand(channels, 1, -1, 1), groups=channels)
        return F.conv2d(rows, kernel.view(1, 1, 1, -1).expand(channels, 1, 1, -1), groups=channels)


class Median(Purifier):
    """The median of each square neighbourhood, edges reflected.

    Parameters
    ----------
    size
        Height and width of the neighbourhood in pixels; odd.

    Examples
    --------
    >>> purified = alu.purifiers.Median(size=3)(images)
    """

    def __init__(self, size: int = 3) -> None:
        super().__init__()
        if size < 1 or size % 2 == 0:
            raise UsageError(f"Median needs an odd size such as 3; it is {size}.")
        self.size = size

    def run(self, images: Tensor) -> Tensor:
        """Filtered images."""
        padded = padded_by(images, self.size // 2)
        around = padded.unfold(2, self.size, 1).unfold(3, self.size, 1).flatten(4)
        return around.median(dim=4).values


class BitDepth(Purifier):
    """Rounds each pixel to fewer bits (feature squeezing, Xu et al. 2018).

    Parameters
    ----------
    bits
        How many of the 8 bits are kept.

    Examples
    --------
    >>> purified = alu.purifiers.BitDepth(bits=4)(images)
    """

    def __init__(self, bits: int = 4) -> None:
        super().__init__()
        if not 1 <= bits <= 8:
            raise UsageError(f"BitDepth keeps 1 to 8 bits; it was asked for {bits}.")
        self.bits = bits

    @property
    def traits(self) -> Traits:
        """Rounding has no useful derivative; its gradient passes straight through."""
        return Traits(gradient="approximate")

    def run(self, images: Tensor) -> Tensor:
        """Rounded images."""
        levels = float(2**self.bits - 1)
        return (images * levels).round() / levels

    def surrogate(self, images: Tensor) -> Tensor:
        """The images before rounding."""
        return images * 1.0


def padded_by(images: Tensor, radius: int) -> Tensor:
    """Images with `radius` more pixels on each side: reflected, or repeated if the image is too small."""
    if radius == 0:
        return images
    small = min(images.shape[2:]) <= radius
    return F.pad(images, (radius,) * 4, mode="replicate" if small else "reflect")
