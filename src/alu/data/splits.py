"""Seeded, disjoint, class-balanced splits: train, calibration, validation, test."""

from __future__ import annotations

from numbers import Integral

import torch
from torch import Tensor

from alu.errors import DataError, UsageError, check_choice
from alu.rng import generator

SPLITS = ("train", "calibration", "validation", "test")
OWN_PARTS = {"calibration": 0.15, "validation": 0.05, "test": 0.10}  # of the user's own images; train gets the rest


def disjoint(labels: Tensor, held_out: dict[str, int], seed: int) -> dict[str, Tensor]:
    """Positions 0..N-1 split into `held_out` parts of these sizes and "train", which gets the rest.

    Each has every class in proportion. A part takes its images class by class from a seeded shuffle, so parts
    never overlap and do not depend on each other's order. Positions inside a part are ascending.
    """
    total = len(labels)
    if sum(held_out.values()) >= total:
        raise DataError(
            f"{total} images are too few to split: the held-out parts take {sum(held_out.values())} and leave none for "
            f"train. Give at least {sum(held_out.values()) + 1}, and some hundreds to be of use."
        )
    shuffled = torch.randperm(total, generator=generator(seed, "split"))
    # Rank within its class, divided by the class's size: a key by which every prefix is class-balanced.
    key = torch.empty(total, dtype=torch.float64)
    for label in torch.unique(labels):
        members = shuffled[labels[shuffled] == label]
        key[members] = (torch.arange(len(members), dtype=torch.float64) + 0.5) / len(members)
    order = shuffled[torch.argsort(key[shuffled], stable=True)]
    parts: dict[str, Tensor] = {}
    start = 0
    for name, size in held_out.items():
        parts[name] = order[start : start + size].sort().values
        start += size
    parts["train"] = order[start:].sort().values
    return parts


def own_part(labels: Tensor, split: str, given: dict[str, Tensor] | None = None) -> Tensor:
    """Positions of one split, or of "all", among the user's own images.

    `given` holds positions of splits that the user made; only the other images are divided, always by the
    same seed, so that two calls never mix up what is trained on and what is measured on.
    """
    check_choice("split", split, (*SPLITS, "all"))
    positions = torch.arange(len(labels))
    given = given or {}
    if split == "all":
        return positions
    if split in given:
        return given[split]
    taken = torch.zeros(len(labels), dtype=torch.bool)
    for part in given.values():
        taken[part] = True
    free = positions[~taken]
    sizes = {name: max(1, round(part * len(free))) for name, part in OWN_PARTS.items() if name not in given}
    return free[disjoint(labels[free], sizes, seed=0)[split]]


def drawn(total: int, n: int | None, seed: int, name: str, split: str) -> Tensor:
    """`n` of the positions 0..total-1, drawn without replacement; a larger `n` begins with the same ones."""
    if n is None:
        return torch.arange(total)
    given: object = n  # whatever the type says
    if not isinstance(given, Integral) or not 1 <= n <= total:
        raise UsageError(f"{name} {split} holds {total} images; n={n!r} cannot be drawn from it.")
    return torch.randperm(total, generator=generator(seed, "draw", name, split))[:n]
