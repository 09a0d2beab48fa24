"""Bag: any number of scores as counts on a fixed grid, for ranks among them in bounded memory. No torch."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

COARSE = 12
"""Bits that are dropped from a float32 score; 11 bits of its mantissa stay, so that cells are 0.05 % wide."""


def grid(scores: Floats) -> Whole:
    """The cell of each score, a whole number that is ordered as scores are; NaN counts as the highest score.

    The grid is fixed before any score is seen. That keeps ranks of cells as valid as ranks of scores.
    """
    largest = float(np.finfo(np.float32).max)
    plain = np.nan_to_num(scores, nan=np.inf, posinf=np.inf, neginf=-np.inf)
    single = np.where(np.isfinite(plain), np.clip(plain, -largest, largest), plain).astype(np.float32) + np.float32(0)
    bits = single.view(np.int32).astype(np.int64)
    # A negative float's bits grow as it falls.
    ordered = np.where(bits >= 0, bits, -(bits & 0x7FFFFFFF) - 1)
    cells: Whole = ordered >> COARSE
    return cells


class Bag:
    """Scores, each as the number of its cell; `cells` is sorted, and `counts` says how many lie in each."""

    def __init__(self, cells: Whole, counts: Whole) -> None:
        self.cells, self.counts, self.total = cells, counts, int(counts.sum())

    @classmethod
    def of(cls, scores: Floats) -> Self:
        """The bag that holds these scores."""
        cells, counts = np.unique(grid(scores), return_counts=True)
        return cls(cells, counts.astype(np.int64))

    def copy(self) -> Self:
        """One that can change by itself."""
        return type(self)(self.cells.copy(), self.counts.copy())

    def ranked(self, cells: Whole) -> tuple[Whole, Whole, Whole]:
        """For each of these cells in turn: how many scores lie above it, how many in it, and how many there are, among
        the bag and the cells before it. The bag stays as it is."""
        below = np.concatenate([[0], np.cumsum(self.counts)])
        left, right = (np.searchsorted(self.cells, cells, side) for side in ("left", "right"))
        earlier = np.tri(len(cells), k=-1, dtype=bool)
        above = self.total - below[right] + (earlier & (cells[None] > cells[:, None])).sum(1)
        equal = below[right] - below[left] + (earlier & (cells[None] == cells[:, None])).sum(1)
        return above, equal, self.total + np.arange(len(cells))

    def add(self, cells: Whole) -> None:
        """Put these in."""
        new, counts = np.unique(cells, return_counts=True)
        at = np.searchsorted(self.cells, new)
        known = np.zeros(len(new), dtype=bool)
        inside = at < len(self.cells)
        known[inside] = self.cells[at[inside]] == new[inside]
        self.counts[at[known]] += counts[known]
        self.cells = np.insert(self.cells, at[~known], new[~known])
        self.counts = np.insert(self.counts, at[~known], counts[~known])
        self.total += len(cells)

    def to_dict(self) -> dict[str, list[int]]:
        """Plain values for JSON."""
        return {"cells": self.cells.tolist(), "counts": self.counts.tolist()}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Self:
        """The bag that `to_dict` described; a ValueError if it cannot have been one."""
        cells, counts = (np.array(state[name], dtype=np.int64) for name in ("cells", "counts"))
        if (
            cells.ndim != 1
            or cells.shape != counts.shape
            or not bool((np.diff(cells) > 0).all() and (counts > 0).all())
        ):
            raise ValueError("cells must be sorted, each with a count above 0")
        return cls(cells, counts)
