"""A denoiser that is told the noise level, or is not: what score-based purifiers follow; cheap on a CPU."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alu.models.architecture import architecture

LEVELS = (0.02, 0.5)
"""Standard deviations of the noise that it is made for; beyond them it is told the nearest of the two."""
UNTOLD = 0.25
"""The unit of the predicted noise where its level is not told."""
FREQUENCIES = 8


class LevelBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut, with SiLU; the noise level scales and shifts what is between them."""

    def __init__(self, width: int, code: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, 1, 1)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1)
        self.level = nn.Linear(code, 2 * width)
        nn.init.zeros_(self.conv2.weight)  # each block starts as the identity, so that depth needs no normalisation

    def forward(self, features: Tensor, code: Tensor) -> Tensor:
        """Features after the block."""
        scale, shift = self.level(code)[:, :, None, None].chunk(2, dim=1)
        inner = self.conv1(F.silu(features)) * (1.0 + scale) + shift
        out: Tensor = features + self.conv2(F.silu(inner))
        return out


class Score(nn.Module):
    """Estimates the clean image behind noise N(0, level² I); no layer works at full resolution, none normalises.

    The score of the smoothed images is (denoise(x, level) - x) / level².
    """

    stride = 4

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.channels = channels
        code = 4 * FREQUENCIES
        self.untold = nn.Parameter(torch.zeros(code))
        self.code = nn.Sequential(nn.Linear(2 * FREQUENCIES, code), nn.SiLU(), nn.Linear(code, code))
        self.first = nn.Conv2d(4 * channels, width, 3, 1, 1)
        self.down = nn.Conv2d(4 * width, 2 * width, 1)
        self.up = nn.Conv2d(2 * width, 4 * width, 1)
        self.last = nn.Conv2d(width, 4 * channels, 3, 1, 1)
        widths = (width, 2 * width, 2 * width, width, width)
        self.blocks = nn.ModuleList(LevelBlock(channels, code) for channels in widths)
        nn.init.zeros_(self.last.weight)

    def denoise(self, noisy: Tensor, level: Tensor | None) -> Tensor:
        """The estimated clean images; `level` [N] is the noise of each, None if that is not known."""
        if level is None:
            code, unit = self.untold.expand(len(noisy), -1), noisy.new_tensor(UNTOLD)
        else:
            told = level.to(noisy).clamp(*LEVELS).log()
            # Between 0 and 1, so that the lowest frequency tells all levels apart.
            share = (told - math.log(LEVELS[0])) / math.log(LEVELS[1] / LEVELS[0])
            angles = share[:, None] * math.pi * 2.0 ** torch.arange(-1, FREQUENCIES - 1, device=noisy.device).to(noisy)
            code, unit = self.code(torch.cat([angles.sin(), angles.cos()], 1)), level.to(noisy)[:, None, None, None]
        return noisy - unit * self._noise(noisy, code)

    def _noise(self, noisy: Tensor, code: Tensor) -> Tensor:
        fine, deep, deeper, near, nearest = self.blocks
        high = fine(self.first(F.pixel_unshuffle(4.0 * (noisy - 0.5), 2)), code)
        low = self.down(F.pixel_unshuffle(high, 2))
        low = self.up(deeper(deep(low, code), code))
        high = nearest(near(high + F.pixel_shuffle(low, 2), code), code)
        noise: Tensor = F.pixel_shuffle(self.last(F.silu(high)), 2)
        return noise

    def forward(self, images: Tensor) -> Tensor:
        """The estimated clean images where the level is not known."""
        return self.denoise(images, None)


@architecture
def score(channels: int = 3, width: int = 48) -> Score:
    """The bundled score network's architecture, for images whose height and width are divisible by 4.

    Parameters
    ----------
    channels, width
        Channels of the images, and of the layers at half resolution: 48 costs 58 M multiply-adds at 32 pixels.

    Examples
    --------
    >>> denoised = alu.models.score(width=8).denoise(images, torch.full((4,), 0.1))
    """
    return Score(channels, width)
