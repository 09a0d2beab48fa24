"""Batches from memory: the order, crops, flips and noise of a step depend on the seed and the step alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from alu.data.dataset import Dataset, as_images
from alu.rng import generator
from alu.training.settings import Settings


@dataclass
class Draws:
    """Random numbers of one step. Each process draws for the whole batch and keeps its rows, so that any number of
    processes trains on the same numbers."""

    stream: torch.Generator
    rows: slice
    total: int

    def normal(self, like: Tensor) -> Tensor:
        """Standard normal noise of the shape of `like`, whose first axis is this process's share of the batch."""
        whole = torch.empty((self.total, *like.shape[1:])).normal_(generator=self.stream)
        return whole[self.rows].to(like.device, like.dtype)

    def uniform(self, like: Tensor) -> Tensor:
        """Uniform noise in [-1, 1) of the shape of `like`."""
        whole = torch.empty((self.total, *like.shape[1:])).uniform_(-1.0, 1.0, generator=self.stream)
        return whole[self.rows].to(like.device, like.dtype)


@dataclass
class Batch:
    """One process's share of a step: images [N, C, H, W] in [0, 1], labels [N], and its random numbers."""

    images: Tensor
    labels: Tensor
    draws: Draws


def steps_per_epoch(data: Dataset, settings: Settings) -> int:
    """Whole batches in an epoch; at least one, however few images there are."""
    return max(1, len(data) // settings.batch_size)


def batches(
    data: Dataset, settings: Settings, epoch: int, first: int = 0, rank: int = 0, processes: int = 1
) -> Iterator[Batch]:
    """The batches of an epoch from number `first` on; the ragged rest of the shuffle is left for another epoch."""
    order = torch.randperm(len(data), generator=generator(settings.seed, "order", epoch))
    size = min(settings.batch_size, len(data))
    for number in range(first, steps_per_epoch(data, settings)):
        chosen = order[number * size : (number + 1) * size]
        stream = generator(settings.seed, "augment", epoch, number)
        place = _placement(len(chosen), settings.augment, stream)
        share = slice(rank * size // processes, (rank + 1) * size // processes)
        images = _augment(as_images(data.pixels[chosen[share]]), place[share])
        draws = Draws(generator(settings.seed, "noise", epoch, number), share, size)
        yield Batch(images, data.labels[chosen[share]], draws)


def _placement(count: int, augment: str, stream: torch.Generator) -> Tensor:
    """[count, 3]: vertical and horizontal shift of the crop (4 is none) and whether to mirror."""
    place = torch.full((count, 3), 4)
    place[:, 2] = 0
    if augment == "crop-flip":
        place[:, :2] = torch.randint(0, 9, (count, 2), generator=stream)
    if augment in ("flip", "crop-flip"):
        place[:, 2] = torch.randint(0, 2, (count,), generator=stream)
    return place


def _augment(images: Tensor, place: Tensor) -> Tensor:
    """Shift by up to 4 pixels (edges reflected) and mirror; the result is laid out channels-last, which CPUs like."""
    height, width = images.shape[2:]
    padded = F.pad(images, (4, 4, 4, 4), mode="reflect")
    rows = place[:, 0, None] + torch.arange(height)
    columns = place[:, 1, None] + torch.arange(width)
    columns = torch.where(place[:, 2, None].bool(), columns.flip(1), columns)
    at = torch.arange(len(images))
    picked = padded[at[:, None, None], :, rows[:, :, None], columns[:, None, :]]  # [N, H, W, C]
    return picked.permute(0, 3, 1, 2)
