"""Views: what self-supervised methods make of an image, by a crop, a mirror and other light; differentiable."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

CHOICES = 5
"""Random numbers that a view takes."""


@dataclass(frozen=True)
class View:
    """How each image of a batch is seen: a square crop, scaled to the whole, perhaps mirrored, and its light."""

    side: Tensor
    """Side of the crop as a share of the image's [N]."""
    right: Tensor
    down: Tensor
    """Where the crop's middle lies, from -1 to 1 [N]."""
    mirrored: Tensor
    """1, or -1 where it is mirrored [N]."""
    contrast: Tensor
    """Factor of the distance from mid-gray [N]."""

    @staticmethod
    def drawn(chosen: Tensor, smallest: float = 0.6, light: float = 0.2) -> View:
        """A random view for each row of uniform numbers [N, 5] in [-1, 1)."""
        side, right, down, mirror, contrast = chosen.unbind(1)
        side = 1.0 - (1.0 - smallest) * 0.5 * (side + 1.0)
        room = 1.0 - side
        mirrored = torch.where(mirror < 0, -torch.ones_like(mirror), torch.ones_like(mirror))
        return View(side, room * right, room * down, mirrored, 1.0 + light * contrast)

    @staticmethod
    def central(like: Tensor, side: float = 0.75) -> View:
        """The same view of every image: the middle, mirrored."""
        ones = torch.ones(len(like), device=like.device, dtype=like.dtype)
        return View(side * ones, 0.0 * ones, 0.0 * ones, -ones, ones)

    def of(self, images: Tensor) -> Tensor:
        """The images as they are seen, of the same shape."""
        none = torch.zeros_like(self.side)
        rows = [self.mirrored * self.side, none, self.right, none, self.side, self.down]
        place = torch.stack(rows, 1).view(-1, 2, 3).to(images)
        grid = F.affine_grid(place, list(images.shape), align_corners=False)
        seen = F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)
        return 0.5 + self.contrast.to(images)[:, None, None, None] * (seen - 0.5)
