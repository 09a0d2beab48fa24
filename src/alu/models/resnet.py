"""Residual classifiers: the CIFAR family (20, 32, 44, 56), and ResNet-18 and -50 for small images."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from alu.models.architecture import architecture
from alu.models.normalize import CIFAR10, IMAGENET, Normalize, per_channel


class PadShortcut(nn.Module):
    """The parameter-free shortcut of He et al. 2016: every second pixel, new channels filled with zeros."""

    def __init__(self, extra: int) -> None:
        super().__init__()
        self.before, self.after = extra // 2, extra - extra // 2

    def forward(self, features: Tensor) -> Tensor:
        """[N, C, H, W] -> [N, C + extra, H/2, W/2]."""
        return F.pad(features[:, :, ::2, ::2], (0, 0, 0, 0, self.before, self.after))


def normalised(conv: nn.Conv2d, norm: nn.BatchNorm2d, features: Tensor) -> Tensor:
    """Batch norm after a convolution [N, C, H, W]; in eval mode one convolution does both, for less time and memory."""
    if norm.training or norm.running_mean is None or norm.running_var is None:
        return norm(conv(features))  # type: ignore[no-any-return]
    scale = norm.weight * (norm.running_var + norm.eps).rsqrt()
    weight, bias = conv.weight * scale[:, None, None, None], norm.bias - norm.running_mean * scale
    return F.conv2d(features, weight, bias, conv.stride, conv.padding)


class Projection(nn.Sequential):
    """The learned 1x1 shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, features: Tensor) -> Tensor:
        """[N, C, H, W] -> [N, outputs, H / stride, W / stride]."""
        conv, norm = self
        assert isinstance(conv, nn.Conv2d)
        assert isinstance(norm, nn.BatchNorm2d)
        return normalised(conv, norm, features)


def projection(inputs: int, outputs: int, stride: int) -> nn.Module:
    """The learned 1x1 shortcut; nothing where shapes already agree."""
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return Projection(inputs, outputs, stride)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    def __init__(self, inputs: int, planes: int, stride: int, *, padded: bool = False) -> None:
        super().__init__()
        self.outputs = planes
        self.conv1 = nn.Conv2d(inputs, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        pads = padded and stride > 1
        self.shortcut = PadShortcut(planes - inputs) if pads else projection(inputs, planes, stride)

    def forward(self, features: Tensor) -> Tensor:
        """Features after the block."""
        out = F.relu(normalised(self.conv1, self.bn1, features))
        return F.relu(normalised(self.conv2, self.bn2, out) + self.shortcut(features))


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 convolutions (four times as many channels at the end) and a shortcut."""

    def __init__(self, inputs: int, planes: int, stride: int) -> None:
        super().__init__()
        self.outputs = 4 * planes
        self.conv1 = nn.Conv2d(inputs, planes, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, self.outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(self.outputs)
        self.shortcut = projection(inputs, self.outputs, stride)

    def forward(self, features: Tensor) -> Tensor:
        """Features after the block."""
        out = F.relu(normalised(self.conv1, self.bn1, features))
        out = F.relu(normalised(self.conv2, self.bn2, out))
        return F.relu(normalised(self.conv3, self.bn3, out) + self.shortcut(features))


class ResNet(nn.Module):
    """A residual classifier from [0, 1] images [N, C, H, W] to logits [N, num_classes]; it normalises inside."""

    def __init__(
        self, block: type[BasicBlock] | type[Bottleneck], depths: Sequence[int], widths: Sequence[int],
        num_classes: int, *, channels: int, stem_stride: int, mean: Sequence[float], std: Sequence[float],
        padded: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalize = Normalize(per_channel(mean, channels), per_channel(std, channels))
        self.conv1 = nn.Conv2d(channels, widths[0], 3, stem_stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        inputs = widths[0]
        self.stages = len(depths)
        for stage, (depth, width) in enumerate(zip(depths, widths, strict=True), start=1):
            blocks: list[BasicBlock | Bottleneck] = []
            for index in range(depth):
                stride = 2 if stage > 1 and index == 0 else 1
                more = {"padded": padded} if block is BasicBlock else {}
                blocks.append(block(inputs, width, stride, **more))
                inputs = blocks[-1].outputs
            self.add_module(f"layer{stage}", nn.Sequential(*blocks))
        self.linear = nn.Linear(inputs, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")

    def features(self, images: Tensor) -> Tensor:
        """Penultimate features [N, F]."""
        out = F.relu(normalised(self.conv1, self.bn1, self.normalize(images)))
        for stage in range(1, self.stages + 1):
            out = self.get_submodule(f"layer{stage}")(out)
        return out.mean((2, 3))

    def forward(self, images: Tensor) -> Tensor:
        """Logits [N, num_classes]."""
        logits: Tensor = self.linear(self.features(images))
        return logits


def _cifar(depth: int, size: str) -> Callable[..., ResNet]:
    """The builder of one network of the family, which differ in depth only; `size` is its number of parameters."""

    def build(
        num_classes: int = 10, channels: int = 3, mean: Sequence[float] = IMAGENET[0],
        std: Sequence[float] = IMAGENET[1],
    ) -> ResNet:  # fmt: skip
        depths = [(depth - 2) // 6] * 3
        return ResNet(
            BasicBlock, depths, (16, 32, 64), num_classes, channels=channels, stem_stride=1, mean=mean, std=std,
            padded=True,
        )  # fmt: skip

    build.__name__ = build.__qualname__ = f"resnet{depth}"
    build.__doc__ = f"""CIFAR ResNet-{depth} ({size} parameters).

    Parameters
    ----------
    num_classes, channels
        Classes, and channels of the images.
    mean, std
        Statistics of each channel by which images are normalised; ImageNet's, as public checkpoints expect.

    Examples
    --------
    >>> logits = alu.models.resnet{depth}(num_classes=5)(images)
    """
    return architecture(build)


resnet20, resnet32, resnet44, resnet56 = map(_cifar, (20, 32, 44, 56), ("0.27 M", "0.46 M", "0.66 M", "0.85 M"))


@architecture
def resnet18(
    num_classes: int = 10, channels: int = 3, size: int = 32, width: int = 64,
    mean: Sequence[float] = CIFAR10[0], std: Sequence[float] = CIFAR10[1],
) -> ResNet:  # fmt: skip
    """ResNet-18 for small images.

    Parameters
    ----------
    size, width
        Height of the images, and channels of the first stage: 64 is the usual width, 16 costs 35 M multiply-adds at 32
        pixels; plus those of `resnet20`.

    Examples
    --------
    >>> logits = alu.models.resnet18(num_classes=5, width=4)(images)
    """
    return _four_stages(BasicBlock, (2, 2, 2, 2), num_classes, channels, size, width, mean, std)


@architecture
def resnet50(
    num_classes: int = 10, channels: int = 3, size: int = 32, width: int = 64,
    mean: Sequence[float] = CIFAR10[0], std: Sequence[float] = CIFAR10[1],
) -> ResNet:  # fmt: skip
    """ResNet-50 for small images, the paper's classifier. Parameters are those of `resnet18`.

    Examples
    --------
    >>> logits = alu.models.resnet50(num_classes=5, width=4)(images)
    """
    return _four_stages(Bottleneck, (3, 4, 6, 3), num_classes, channels, size, width, mean, std)


def _four_stages(
    block: type[BasicBlock] | type[Bottleneck], depths: Sequence[int], num_classes: int, channels: int, size: int,
    width: int, mean: Sequence[float], std: Sequence[float],
) -> ResNet:  # fmt: skip
    """A network whose first stage stays near 32 pixels: larger images are halved once at the stem."""
    widths = (width, 2 * width, 4 * width, 8 * width)
    stride = 1 if size <= 32 else 2
    return ResNet(block, depths, widths, num_classes, channels=channels, stem_stride=stride, mean=mean, std=std)
