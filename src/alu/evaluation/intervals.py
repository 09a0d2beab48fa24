"""Intervals: how far a measured share may be from the true one."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Share:
    """`count` out of `n`, with its 95 % Wilson interval."""

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
