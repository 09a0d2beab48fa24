"""JPEG's lossy part as tensor operations: it runs on any device, and its gradient skips the rounding."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from alu.errors import UsageError
from alu.models.vae import padded_to
from alu.purifiers.base import Purifier, Traits

# Quantisation tables of the JPEG standard (ITU-T T.81, annex K), at quality 50.
LUMINANCE = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)
CHROMINANCE = (
    (17, 18, 24, 47, 99, 99, 99, 99),
    (18, 21, 26, 66, 99, 99, 99, 99),
    (24, 26, 56, 99, 99, 99, 99, 99),
    (47, 66, 99, 99, 99, 99, 99, 99),
    *[(99,) * 8] * 4,
)
# RGB -> luminance and two colour differences (JFIF); the inverse is computed, so that the two always agree.
COLOURS = ((0.299, 0.587, 0.114), (-0.168736, -0.331264, 0.5), (0.5, -0.418688, -0.081312))

Rounding = Callable[[Tensor], Tensor]


class JPEG(Purifier):
    """JPEG compression and decompression, chroma at half resolution as most encoders do.

    Three channels are RGB; any other number is compressed channel by channel like luminance.

    Parameters
    ----------
    quality
        From 1 (smallest file) to 100.

    Examples
    --------
    >>> purified = alu.purifiers.JPEG(quality=50)(images)
    """

    def __init__(self, quality: int = 75) -> None:
        super().__init__()
        if not 1 <= quality <= 100:
            raise UsageError(f"JPEG quality runs from 1 to 100; it is {quality}.")
        self.quality = quality

    @property
    def traits(self) -> Traits:
        """The gradient ignores the rounding of coefficients."""
        return Traits(gradient="approximate")

    def run(self, images: Tensor) -> Tensor:
        """Decompressed images with 8-bit pixels, as a decoder returns them."""
        return self._compressed(images, torch.round).clamp(0, 255).round() / 255

    def surrogate(self, images: Tensor) -> Tensor:
        """The same without rounding: what remains is the loss of chroma resolution."""
        return self._compressed(images, lambda value: value) / 255

    def _compressed(self, images: Tensor, rounded: Rounding) -> Tensor:
        pixels = images * 255
        if images.shape[1] != 3:
            return self._plane(pixels - 128, LUMINANCE, rounded) + 128
        matrix = torch.tensor(COLOURS, dtype=images.dtype, device=images.device)
        ycc = torch.einsum("ij,njhw->nihw", matrix, pixels)
        luminance = self._plane(ycc[:, :1] - 128, LUMINANCE, rounded) + 128
        small = F.avg_pool2d(padded_to(ycc[:, 1:], 2), 2)
        chroma = self._plane(small, CHROMINANCE, rounded)
        chroma = F.interpolate(chroma, scale_factor=2.0, mode="nearest")[:, :, : images.shape[2], : images.shape[3]]
        return torch.einsum("ij,njhw->nihw", _inverse(images), torch.cat([luminance, chroma], dim=1))

    def _plane(self, plane: Tensor, table: tuple[tuple[int, ...], ...], rounded: Rounding) -> Tensor:
        """Transform 8x8 blocks, round each coefficient to the table's multiple, transform back."""
        count, channels, height, width = plane.shape
        padded = padded_to(plane, 8)
        rows, columns = padded.shape[2] // 8, padded.shape[3] // 8
        blocks = padded.view(count, channels, rows, 8, columns, 8).permute(0, 1, 2, 4, 3, 5)
        basis = _cosines(plane)
        scale = 5000 / self.quality if self.quality < 50 else 200 - 2 * self.quality
        steps = ((torch.tensor(table, dtype=plane.dtype, device=plane.device) * scale + 50) / 100).floor().clamp(1, 255)
        coefficients = basis @ blocks @ basis.T
        kept = rounded(coefficients / steps) * steps
        back = (basis.T @ kept @ basis).permute(0, 1, 2, 4, 3, 5).reshape(count, channels, rows * 8, columns * 8)
        return back[:, :, :height, :width]


def _inverse(like: Tensor) -> Tensor:
    """From luminance and colour differences back to RGB [3, 3]: the inverse of the colours as this precision has them.

    In NumPy, because a graph that is exported has no operation for it.
    """
    colours = np.array(COLOURS, dtype=np.float32 if like.dtype == torch.float32 else np.float64)
    return torch.tensor(np.linalg.inv(colours.astype(np.float64)).tolist(), dtype=like.dtype, device=like.device)


def _cosines(like: Tensor) -> Tensor:
    """The orthonormal 8-point cosine transform [8, 8]."""
    at = torch.arange(8, dtype=torch.float64)
    basis = torch.cos(math.pi * at[:, None] * (2 * at[None, :] + 1) / 16) * math.sqrt(2 / 8)
    basis[0] /= math.sqrt(2)
    return basis.to(like.device, like.dtype)
