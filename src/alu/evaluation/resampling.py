"""Resampling: how far a mean, a ratio of means or a fit may be from the true one, by drawing the images again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

DRAWS, SEED = 1_000, 0
"""How often the images are drawn again; always in the same way, so that a page can be written again as it was."""


@dataclass(frozen=True)
class Estimate:
    """A figure of `n` images with its 95 % bootstrap interval."""

    value: float
    interval: tuple[float, float]
    n: int

    def shown(self, form: str = ".2f") -> str:
        """The figure and its interval in the given number format."""
        low, high = self.interval
        return f"{self.value:{form}} [{low:{form}}, {high:{form}}]"


def estimate(figure: Callable[..., Any], *columns: Sequence[float]) -> Estimate:
    """`figure` of columns [..., n] that belong to the same n images, over its last axis; the images are drawn again
    together, so that pairs stay pairs."""
    values = [np.asarray(column, dtype=np.float64) for column in columns]
    n = len(values[0])
    if n == 0 or any(len(column) != n for column in values):
        raise ValueError(
            f"Columns must be of one length and not empty; they have {[len(column) for column in values]}."
        )
    # The old generator's numbers are promised never to change: a page must not depend on numpy's version.
    drawn = np.random.RandomState(SEED).randint(n, size=(DRAWS, n))
    with np.errstate(invalid="ignore", divide="ignore"):
        again = figure(*(column[drawn] for column in values))
    low, high = np.nanquantile(again, [0.025, 0.975])
    return Estimate(float(figure(*values)), (float(low), float(high)), n)


def mean(values: Sequence[float]) -> Estimate:
    """The mean."""
    return estimate(lambda column: column.mean(-1), values)


def lead(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """By how much the first is larger than the second on the same images, on average."""
    return estimate(lambda one, other: (one - other).mean(-1), first, second)


def ratio(part: Sequence[float], whole: Sequence[float]) -> Estimate:
    """The mean of one column as a share of the mean of another."""
    return estimate(lambda one, other: one.mean(-1) / other.mean(-1), part, whole)


def explained(part: Sequence[float], whole: Sequence[float]) -> Estimate:
    """R²: 1 - the share of the variance of `whole` that `part` plus a constant leaves over."""
    return estimate(lambda one, other: 1 - (other - one).var(-1) / other.var(-1), part, whole)
