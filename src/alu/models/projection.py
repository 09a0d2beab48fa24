"""A linear projection with fitted directions: the weights of the PCA purifier."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from alu.models.architecture import architecture


class Projection(nn.Module):
    """Mean `mean_` [values] and orthonormal rows `components_` [components, values]."""

    mean_: Tensor
    components_: Tensor

    def __init__(self, components: int, values: int) -> None:
        super().__init__()
        self.register_buffer("mean_", torch.zeros(values))
        self.register_buffer("components_", torch.zeros(components, values))

    def forward(self, images: Tensor) -> Tensor:
        """Images projected onto the directions, same shape."""
        rows = images.flatten(1) - self.mean_
        return (rows @ self.components_.T @ self.components_ + self.mean_).view_as(images)


@architecture
def projection(components: int, values: int) -> Projection:
    """A projection whose directions are still zero: the weights of a PCA are loaded into it.

    Parameters
    ----------
    components, values
        How many directions, and how many values an image has.

    Examples
    --------
    >>> projected = alu.models.projection(components=10, values=3 * 32 * 32)(images)
    """
    return Projection(components, values)
