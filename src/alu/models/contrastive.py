"""A robust classifier's features with a small head on which views of one image lie together (Mao et al. 2021)."""

from __future__ import annotations

from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alu.models.architecture import architecture
from alu.models.resnet import resnet18


class Contrastive(nn.Module):
    """Unit vectors [N, code] of images: a frozen ResNet-18's penultimate features, then two linear layers.

    `bank` holds the features of training images; as vectors they are what an image must be told from.
    """

    bank: Tensor

    def __init__(self, num_classes: int, channels: int, size: int, width: int, code: int, negatives: int) -> None:
        super().__init__()
        self.backbone = resnet18(num_classes, channels, size, width).requires_grad_(False).eval()
        features = self.backbone.linear.in_features
        self.head = nn.Sequential(nn.Linear(features, features), nn.SiLU(), nn.Linear(features, code))
        self.register_buffer("bank", torch.zeros(negatives, features))

    def train(self, mode: bool = True) -> Self:
        """As for any module, but the backbone's statistics stay as they are."""
        super().train(mode)
        self.backbone.eval()
        return self

    def forward(self, images: Tensor) -> Tensor:
        """Unit vectors of images."""
        return self.vectors(self.backbone.features(images))

    def vectors(self, features: Tensor) -> Tensor:
        """Unit vectors of the backbone's features."""
        return F.normalize(self.head(features), dim=1)

    @property
    def negatives(self) -> Tensor:
        """Unit vectors of the bank [negatives, code]."""
        return self.vectors(self.bank)


@architecture
def contrastive(
    num_classes: int = 10, channels: int = 3, size: int = 32, width: int = 18, code: int = 64, negatives: int = 256
) -> Contrastive:
    """The bundled contrastive network's architecture.

    Parameters
    ----------
    num_classes, channels, size, width
        Of the frozen ResNet-18; they are those of `resnet18`.
    code, negatives
        Values of a unit vector, and how many training images it is told from.

    Examples
    --------
    >>> alu.models.contrastive(width=8, code=16)(images).shape
    torch.Size([4, 16])
    """
    return Contrastive(num_classes, channels, size, width, code, negatives)
