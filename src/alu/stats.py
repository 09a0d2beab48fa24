"""Statistics of plain numbers: shares and means with intervals, the sign test, conformal thresholds, ROC. No torch."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

DRAWS, SEED = 1_000, 0
"""How often the bootstrap draws the images again; always with this seed, so that a page can be written again."""


@dataclass(frozen=True)
class Share:
    """`count` out of `n`, with its 95 % Wilson interval.

    >>> str(Share(37, 200))
    '18.5 % [13.7, 24.5]'
    """

    count: int
    n: int

    @property
    def value(self) -> float:
        """The share itself, a fraction."""
        return self.count / self.n

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper end of the 95 % Wilson interval, fractions."""
        z = 1.959963984540054
        centre = self.value + z * z / (2 * self.n)
        spread = z * math.sqrt(self.value * (1 - self.value) / self.n + z * z / (4 * self.n * self.n))
        scale = 1 + z * z / self.n
        # At the ends the formula gives exactly 0 and 1, which rounding would miss by a hair.
        low = 0.0 if self.count == 0 else max(0.0, (centre - spread) / scale)
        high = 1.0 if self.count == self.n else min(1.0, (centre + spread) / scale)
        return low, high

    def __str__(self) -> str:
        low, high = self.interval
        return f"{100 * self.value:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


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


def bootstrap(figure: Callable[..., Any], *columns: Sequence[float]) -> Estimate:
    """`figure` of columns that belong to the same n images, with its interval.

    `figure` works on arrays, over their last axis. Images are drawn again as a whole, so that pairs stay pairs.
    """
    import numpy as np

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
    return bootstrap(lambda column: column.mean(-1), values)


def mean_difference(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """By how much the first is larger than the second on the same images, on average."""
    return bootstrap(lambda one, other: (one - other).mean(-1), first, second)


def ratio(part: Sequence[float], whole: Sequence[float]) -> Estimate:
    """The mean of one column divided by the mean of another."""
    return bootstrap(lambda one, other: one.mean(-1) / other.mean(-1), part, whole)


def explained_variance(part: Sequence[float], whole: Sequence[float]) -> Estimate:
    """R²: 1 - the part of the variance of `whole` that `part` plus a constant leaves over."""
    return bootstrap(lambda one, other: 1 - (other - one).var(-1) / other.var(-1), part, whole)


def sign_test(first: int, second: int) -> float:
    """The exact two-sided p-value that two counts are draws of a fair coin."""
    total = first + second
    tail = sum(math.comb(total, k) for k in range(min(first, second) + 1)) / (1 << total)
    return min(1.0, 2 * tail)


def conformal_rank(n: int, false_alarm: float) -> int:
    """Where the threshold stands among n clean scores in ascending order: scores above it have p <= false_alarm.

    It is n, one past the end, where so few clean scores cannot promise so small a rate.

    >>> conformal_rank(399, 0.005)
    397
    """
    return n - math.floor(false_alarm * (n + 1) + 1e-9)


def fewest_clean(false_alarm: float) -> int:
    """The smallest number of clean scores that can promise this rate: the smallest n with `conformal_rank` below n.

    >>> fewest_clean(0.005)
    199
    """
    return math.ceil(1.0 / false_alarm - 1e-9) - 1


def conformal_threshold(clean: Sequence[float], false_alarm: float) -> float | None:
    """The largest score that is not flagged; None where there are too few clean scores for this rate."""
    rank = conformal_rank(len(clean), false_alarm)
    return sorted(clean)[rank] if rank < len(clean) else None


def quantile(values: Sequence[float], at: float) -> float:
    """The quantile of values, interpolated between neighbours."""
    ordered = sorted(values)
    place = at * (len(ordered) - 1)
    low = int(place)
    return ordered[low] + (place - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])


def roc(negative: Sequence[float], positive: Sequence[float]) -> list[tuple[float, float]]:
    """False-alarm rate and detection rate at every threshold, from (0, 0) to (1, 1)."""
    below, above = sorted(negative), sorted(positive)
    return [(0.0, 0.0)] + [
        (1 - bisect_left(below, threshold) / len(below), 1 - bisect_left(above, threshold) / len(above))
        for threshold in sorted({*below, *above}, reverse=True)
    ]


def binomial_lower(successes: int, n: int, alpha: float) -> float:
    """The lower Clopper-Pearson bound: a share below it would show so many successes with probability at most alpha.

    >>> round(binomial_lower(99, 100, 0.001), 4)
    0.9114
    """
    if successes == 0:
        return 0.0
    low, high = 0.0, successes / n
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _incomplete_beta(middle, successes, n - successes + 1) < alpha else (low, middle)
    return low


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by its continued fraction; P(X >= a) of a + b - 1 throws at x."""
    if x > (a + 1) / (a + b + 2):  # there the fraction of the other tail converges faster
        return 1.0 - _incomplete_beta(1.0 - x, b, a)
    if x <= 0.0:
        return 0.0
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    ) / a  # fmt: skip
    tiny = 1e-300
    numerator, denominator = 1.0, 1.0 - (a + b) * x / (a + 1)
    denominator = 1.0 / (denominator if abs(denominator) > tiny else tiny)
    value = denominator
    for m in range(1, 1000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            denominator = 1.0 + term * denominator
            denominator = 1.0 / (denominator if abs(denominator) > tiny else tiny)
            numerator = 1.0 + term / numerator
            numerator = numerator if abs(numerator) > tiny else tiny
            value *= denominator * numerator
        if abs(denominator * numerator - 1.0) < 1e-14:
            break
    return front * value
