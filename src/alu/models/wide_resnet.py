"""Wide residual classifiers (Zagoruyko and Komodakis 2016)."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from alu.models.architecture import architecture
from alu.models.normalize import CIFAR10, Normalize, per_channel


class WideBlock(nn.Module):
    """Pre-activation block of a wide ResNet."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)
        self.projects = not same

    def forward(self, features: Tensor) -> Tensor:
        """Features after the block."""
        active = F.relu(self.bn1(features))
        # A projected shortcut starts from the activation, an identity one from the raw features.
        shortcut = self.shortcut(active) if self.projects else features
        out: Tensor = self.conv2(F.relu(self.bn2(self.conv1(active)))) + shortcut
        return out


class WideResNet(nn.Module):
    """A wide residual classifier (Zagoruyko and Komodakis 2016) from [0, 1] images to logits."""

    def __init__(
        self, depth: int, factor: int, num_classes: int, channels: int, mean: Sequence[float], std: Sequence[float]
    ) -> None:
        super().__init__()
        self.normalize = Normalize(per_channel(mean, channels), per_channel(std, channels))
        self.conv1 = nn.Conv2d(channels, 16, 3, 1, 1, bias=False)
        inputs = 16
        blocks: list[nn.Module] = []
        for stage, base in enumerate((16, 32, 64)):
            for index in range((depth - 4) // 6):
                blocks.append(WideBlock(inputs, base * factor, 2 if stage and index == 0 else 1))
                inputs = base * factor
        self.blocks = nn.Sequential(*blocks)
        self.bn = nn.BatchNorm2d(inputs)
        self.linear = nn.Linear(inputs, num_classes)

    def features(self, images: Tensor) -> Tensor:
        """Penultimate features [N, F]."""
        out = self.blocks(self.conv1(self.normalize(images)))
        return F.relu(self.bn(out)).mean((2, 3))

    def forward(self, images: Tensor) -> Tensor:
        """Logits [N, num_classes]."""
        logits: Tensor = self.linear(self.features(images))
        return logits


@architecture
def wide_resnet(
    num_classes: int = 10, depth: int = 28, factor: int = 10, channels: int = 3,
    mean: Sequence[float] = CIFAR10[0], std: Sequence[float] = CIFAR10[1],
) -> WideResNet:  # fmt: skip
    """WRN-`depth`-`factor`.

    Parameters
    ----------
    depth, factor
        Number of layers (6 n + 4), and how much wider than a ResNet it is; plus those of `resnet20`.

    Examples
    --------
    >>> logits = alu.models.wide_resnet(depth=10, factor=1)(images)
    """
    return WideResNet(depth, factor, num_classes, channels, mean, std)
