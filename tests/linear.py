"""A linear classifier of two classes, and images at known distances from its boundary: every optimum is known."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from alu.rng import generator

SHAPE = (3, 6, 6)
RADII = (1, 2, 4)
"""Radii of checks, in 255ths."""
FARTHEST = 12.0
"""Distances from the boundary go up to here, in 255ths (L-inf)."""


class Linear(nn.Module):
    """Two logits whose difference is direction · (x - 1/2)."""

    def __init__(self) -> None:
        super().__init__()
        direction = 2 * torch.randn(108, generator=generator(0, "linear"))
        self.register_buffer("direction", direction)
        self.anchor = nn.Parameter(torch.zeros(()), requires_grad=False)

    @property
    def slope(self) -> float:
        """By how much the difference changes over a distance of 1/255 (L-inf)."""
        return float(self.direction.abs().sum()) / 255  # type: ignore[operator]

    def forward(self, images: Tensor) -> Tensor:
        """The logits."""
        difference = (images.flatten(1) - 0.5) @ self.direction  # type: ignore[operator]
        return torch.stack([difference / 2, -difference / 2], 1)


@dataclass(frozen=True)
class LinearData:
    """Images with labels, of which nine in ten are the classifier's own answers."""

    images: Tensor
    labels: Tensor
    own: Tensor
    """The classifier's answers."""
    distance: Tensor
    """How far each image is from the boundary, in 255ths (L-inf)."""

    @property
    def right(self) -> Tensor:
        """Where the classifier is right."""
        return self.own == self.labels


def linear_data(count: int = 200) -> LinearData:
    """Images at distances that are spread evenly, all so far inside [0, 1] that no attack is clipped."""
    stream, model = generator(0, "linear data"), Linear()
    images = 0.3 + 0.4 * torch.rand((count, *SHAPE), generator=stream)
    direction: Tensor = model.direction  # type: ignore[assignment]
    wanted = (2 * torch.rand(count, generator=stream) - 1) * FARTHEST * model.slope
    now = (images.flatten(1) - 0.5) @ direction
    images = images + (((wanted - now) / direction.abs().sum())[:, None] * direction.sign()).view_as(images)
    distance = ((images.flatten(1) - 0.5) @ direction).abs() / model.slope
    own = model(images).argmax(1)
    labels = torch.where(torch.rand(count, generator=stream) < 0.9, own, 1 - own)
    return LinearData(images, labels, own, distance)
