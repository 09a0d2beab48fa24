"""Batches from memory: the order, crops, flips and noise of a step depend on the seed and the step alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
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
    done: float = 1.0
    """The share of the training that lies behind this step, for objectives that change on the way."""


def steps_per_epoch(data: Dataset, settings: Settings) -> int:
    """Whole batches in an epoch; at least one, however few images there are."""
    return max(1, len(data) // settings.batch_size)


def batches(
    data: Dataset, settings: Settings, epoch: int, first: int = 0, rank: int = 0, processes: int = 1
) -> Iterator[Batch]:
    """The batches of an epoch from number `first` on; the ragged rest of the shuffle is left for another epoch."""
    order = torch.randperm(len(data), generator=generator(settings.seed, "order", epoch))
    size, count = min(settings.batch_size, len(data)), steps_per_epoch(data, settings)
    for number in range(first, count):
        chosen = order[number * size : (number + 1) * size]
        stream = generator(settings.seed, "augment", epoch, number)
        place = _placement(len(chosen), data.shape[1:], settings.augment, stream)
        share = slice(rank * size // processes, (rank + 1) * size // processes)
        images = _placed(data.pixels, chosen[share], place.part(share))
        draws = Draws(generator(settings.seed, "noise", epoch, number), share, size)
        done = (epoch * count + number) / (count * settings.epochs)
        yield Batch(images, data.labels[chosen[share]], draws, done)


@dataclass
class Placement:
    """How each image of a batch is moved: the shift of its crop in the padded image [N, 2], whether it is mirrored [N],
    and the upper left corner of the square that is cut out [N, 2], if any."""

    shift: Tensor
    mirrored: Tensor
    hole: Tensor | None = None

    def part(self, share: slice) -> Placement:
        """The rows of one process."""
        return Placement(self.shift[share], self.mirrored[share], None if self.hole is None else self.hole[share])


def _margin(sides: tuple[int, ...]) -> int:
    """How far a crop moves, in pixels: an eighth of the shorter side (4 at 32 pixels)."""
    return min(sides) // 8


def _placement(count: int, sides: tuple[int, ...], augment: str, stream: torch.Generator) -> Placement:
    """Where the images of a whole batch go."""
    margin = _margin(sides)
    place = Placement(torch.full((count, 2), margin), torch.zeros(count, dtype=torch.bool))
    if augment.startswith("crop"):
        place.shift = torch.randint(0, 2 * margin + 1, (count, 2), generator=stream)
    if augment != "none":
        place.mirrored = torch.randint(0, 2, (count,), generator=stream).bool()
    if augment.endswith("cutout"):
        # The square may reach over the edge by half, so that every pixel is as likely to go.
        low, ends = -_hole(sides) // 2, [side - _hole(sides) // 2 for side in sides]
        if len(set(ends)) == 1:
            place.hole = torch.randint(low, ends[0], (count, 2), generator=stream)
        else:
            place.hole = torch.stack([torch.randint(low, end, (count,), generator=stream) for end in ends], 1)
    return place


def _hole(sides: tuple[int, ...]) -> int:
    """The side of the square that is cut out: a quarter of the shorter side."""
    return max(1, min(sides) // 4)


def _placed(pixels: Tensor, chosen: Tensor, place: Placement) -> Tensor:
    """Float images, shifted (edges reflected), mirrored and cut out, laid out channels-last, which CPUs like.

    One gather of 8-bit pixels does it all: padding and moving floats takes several times as long.
    """
    height, width = pixels.shape[2:]
    margin = _margin((height, width))
    rows = _reflected(place.shift[:, :1] - margin + torch.arange(height), height)
    columns = _reflected(place.shift[:, 1:] - margin + torch.arange(width), width)
    columns = torch.where(place.mirrored[:, None], columns.flip(1), columns)
    picked = as_images(pixels[chosen[:, None, None], :, rows[:, :, None], columns[:, None, :]])  # [N, H, W, C]
    if place.hole is not None:
        side = _hole((height, width))
        down, across = torch.arange(height) - place.hole[:, :1], torch.arange(width) - place.hole[:, 1:]
        inside = ((down >= 0) & (down < side))[:, :, None] & ((across >= 0) & (across < side))[:, None, :]
        picked[inside] = 0.5
    return picked.permute(0, 3, 1, 2)


def _reflected(at: Tensor, length: int) -> Tensor:
    """Positions outside 0..length-1 mirrored at the first and the last pixel."""
    return (length - 1) - ((length - 1) - at.abs()).abs()
