"""Dataset: images, labels and class names that belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from alu.data.splits import drawn
from alu.errors import InputError


@dataclass(frozen=True)
class Dataset:
    """Labelled images of one size.

    `pixels` is [N, C, H, W], uint8 in 0..255 or floating point in [0, 1]; `images` is the same as float32 in
    [0, 1]. `labels` is int64 [N]; `indices` says where each image stood in its source, so that a figure can
    name it.
    """

    pixels: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    name: str = "images"
    split: str = "all"
    indices: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))

    def __post_init__(self) -> None:
        if self.pixels.ndim != 4:
            raise InputError(f"{self.name}: images must be [N, C, H, W]; these have shape {list(self.pixels.shape)}.")
        if len(self.pixels) != len(self.labels):
            raise InputError(f"{self.name}: {len(self.pixels)} images but {len(self.labels)} labels.")
        if len(self.labels) and not 0 <= int(self.labels.min()) <= int(self.labels.max()) < len(self.classes):
            raise InputError(
                f"{self.name}: labels run from {int(self.labels.min())} to {int(self.labels.max())}, "
                f"but there are {len(self.classes)} classes (0 to {len(self.classes) - 1})."
            )
        if self.pixels.is_floating_point() and len(self.pixels):
            low, high = float(self.pixels.min()), float(self.pixels.max())
            if not (low >= 0.0 and high <= 1.0):  # also false for NaN
                raise InputError(
                    f"{self.name}: pixel values must lie in [0, 1]; these run from {low:g} to {high:g}. "
                    "Divide 0..255 values by 255; remove NaN and infinite pixels."
                )
        if not len(self.indices):
            object.__setattr__(self, "indices", torch.arange(len(self.pixels)))

    @cached_property
    def images(self) -> Tensor:
        """Float32 images in [0, 1]."""
        return as_images(self.pixels)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of every image."""
        channels, height, width = self.pixels.shape[1:]
        return channels, height, width

    def __len__(self) -> int:
        return len(self.pixels)

    def take(self, chosen: Tensor | Sequence[int], split: str | None = None) -> Dataset:
        """The images at these positions, in this order."""
        at = torch.as_tensor(chosen, dtype=torch.int64)
        return Dataset(self.pixels[at], self.labels[at], self.classes, self.name, split or self.split, self.indices[at])

    def draw(self, n: int | None, seed: int = 0) -> Dataset:
        """`n` images drawn without replacement by this seed; a larger `n` begins with the same images."""
        if n is None:
            return self
        return self.take(drawn(len(self), n, seed, self.name, self.split))


def as_images(pixels: Tensor) -> Tensor:
    """Float32 images in [0, 1] from uint8 or floating-point pixels."""
    if pixels.dtype == torch.uint8:
        return pixels.to(torch.float32).div_(255.0)
    return pixels.to(torch.float32)
