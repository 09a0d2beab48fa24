"""Seeded, disjoint, class-balanced splits: train, calibration, validation, test."""

from __future__ import annotations

import torch
from torch import Tensor

from alu.errors import DataError, UsageError, nearest
from alu.rng import generator

SPLITS = ("train", "calibration", "validation", "test")


def check_split(split: str) -> None:
    """Refuse a split that does not exist."""
    if split not in SPLITS:
        raise UsageError(f"There is no split {split!r}. {nearest(split, list(SPLITS))}")


def disjoint(labels: Tensor, held_out: dict[str, int], seed: int, rest: str = "train") -> dict[str, Tensor]:
    """Split positions 0..N-1 into `held_out` parts of the sizes given and the `rest`, each with every class in proportion.

    A part takes its images class by class from a seeded shuffle, so parts never overlap and do not depend on each
    other's order. Positions inside a part are ascending.
    """
    total = len(labels)
    if sum(held_out.values()) >= total:
        raise DataError(
            f"{total} images cannot give {sum(held_out.values())} held-out ones and leave any for {rest}. "
            "Add images or hold out fewer."
        )
    shuffled = torch.randperm(total, generator=generator(seed, "split"))
    # Rank within its class, divided by the class's size: a key by which every prefix is class-balanced.
    key = torch.empty(total, dtype=torch.float64)
    for label in labels.unique():
        members = shuffled[labels[shuffled] == label]
        key[members] = (torch.arange(len(members), dtype=torch.float64) + 0.5) / len(members)
    order = shuffled[torch.argsort(key[shuffled], stable=True)]
    parts: dict[str, Tensor] = {}
    start = 0
    for name, size in held_out.items():
        parts[name] = order[start : start + size].sort().values
        start += size
    parts[rest] = order[start:].sort().values
    return parts
