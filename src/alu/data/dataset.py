"""Dataset: images, labels and class names that belong together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import torch
from torch import Tensor

from alu.data.splits import drawn
from alu.errors import InputError


@dataclass(frozen=True)
class Dataset:
    """Labelled images of one size.

    `pixels` is [N, C, H, W], uint8 in 0..255 or floating point in [0, 1]; `images` is the same as float32 in
    [0, 1]. `labels` is int64 [N], whatever whole numbers it was made from; `indices` says where each image
    stood in its source, so that a figure can name it.
    """

    pixels: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    name: str = "images"
    split: str = "all"
    indices: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))

    def __post_init__(self) -> None:
        put = partial(object.__setattr__, self)  # the fields are frozen for everybody else
        put("pixels", checked_pixels(self.name, self.pixels))
        put("labels", checked_labels(self.name, self.labels))
        put("classes", _checked_classes(self.name, self.classes))
        if len(self.pixels) != len(self.labels):
            raise InputError(f"{self.name}: {len(self.pixels)} images but {len(self.labels)} labels.")
        if len(self.labels) and not 0 <= int(self.labels.min()) <= int(self.labels.max()) < len(self.classes):
            raise InputError(
                f"{self.name}: labels run from {int(self.labels.min())} to {int(self.labels.max())}, "
                f"but there are {len(self.classes)} classes (0 to {len(self.classes) - 1})."
            )
        if not len(self.indices):
            put("indices", torch.arange(len(self.pixels)))
        if len(self.indices) != len(self.pixels):
            raise InputError(f"{self.name}: {len(self.pixels)} images but {len(self.indices)} indices.")

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

    def batches(self, size: int, device: str = "cpu") -> Iterator[Tensor]:
        """Float32 images, `size` of them at a time: large pictures never have to fit memory together."""
        for start in range(0, len(self), size):
            yield as_images(self.pixels[start : start + size]).to(device)

    def relabelled(self, classes: Sequence[str], who: str) -> Dataset:
        """The same images with labels in the order of these class names, those of the classifier `who`, which may have
        more classes. If no name is known to it, or if all stand in the right place, the data set itself."""
        places = [[at for at, known in enumerate(classes) if _alike(known, name)] for name in self.classes]
        alone = [place[0] if len(place) == 1 else -1 for place in places]
        in_place = len(classes) == len(self.classes) and all(at in (-1, label) for label, at in enumerate(alone))
        if in_place or not any(places):
            return self
        if -1 in alone:
            strange = alone.index(-1)
            more = "more than one class is called so" if places[strange] else f"it has {', '.join(classes[:5])}, ..."
            raise InputError(
                f"{self.name} has the class {self.classes[strange]!r}, which {who} does not know: {more}. Rename the "
                "class, or leave it out."
            )
        return replace(self, labels=torch.tensor(alone)[self.labels], classes=tuple(classes))


def _alike(one: str, other: str) -> bool:
    """Whether two names mean the same class: capitals and underscores do not matter."""
    return one.replace("_", " ").casefold() == other.replace("_", " ").casefold()


def checked_pixels(name: str, pixels: object) -> Tensor:
    """The pixels as a tensor, or a sentence that says what is wrong with them."""
    tensor = _as_tensor(name, "images", pixels)
    if tensor.ndim != 4:
        raise InputError(f"{name}: images must be [N, C, H, W]; these have shape {list(tensor.shape)}.")
    if tensor.dtype != torch.uint8 and not tensor.is_floating_point():
        raise InputError(
            f"{name}: images of type {str(tensor.dtype).removeprefix('torch.')} have no agreed range. Give uint8 in "
            "0..255, or floating point in [0, 1]."
        )
    if tensor.is_floating_point() and tensor.numel():
        low, high = (float(end) for end in tensor.detach().aminmax())
        if not (math.isfinite(low) and math.isfinite(high)):
            broken = int((~tensor.isfinite()).sum())
            raise InputError(f"{name}: {broken} pixels are NaN or infinite. Remove those images.")
        if low < 0.0 or high > 1.0:
            raise InputError(
                f"{name}: pixel values must lie in [0, 1]; these run from {low:g} to {high:g}. "
                "Divide 0..255 values by 255."
            )
    return tensor


def checked_labels(name: str, labels: object) -> Tensor:
    """The labels as int64, or a sentence that says what is wrong with them."""
    tensor = _as_tensor(name, "labels", labels)
    whole = not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)
    if tensor.ndim != 1 or (len(tensor) and not whole):
        raise InputError(
            f"{name}: labels must be whole numbers of shape [N]; these are {str(tensor.dtype).removeprefix('torch.')} "
            f"of shape {list(tensor.shape)}. Give labels.argmax(1) if they are one-hot, or labels.long()."
        )
    return tensor.to(torch.int64)


def _checked_classes(name: str, classes: object) -> tuple[str, ...]:
    if isinstance(classes, str) or not isinstance(classes, Sequence):
        raise InputError(f"{name}: classes must be a list of names, one for each label, not {classes!r}.")
    return tuple(map(str, classes))


def _as_tensor(name: str, what: str, values: object) -> Tensor:
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name}: {what} must be a tensor or an array of numbers ({error}).") from error


def as_images(pixels: Tensor) -> Tensor:
    """Float32 images in [0, 1] from uint8 or floating-point pixels."""
    if pixels.dtype == torch.uint8:
        return pixels.to(torch.float32).div_(255.0)
    return pixels.to(torch.float32)
