"""Axes: two scales, a frame and its ticks, as SVG. Charts draw into it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Scale:
    """Values between two ends, and the ticks that are labelled."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False

    def place(self, value: float) -> float:
        """Where a value lies, 0 at the low end and 1 at the high one; values beyond an end lie on it."""
        value = min(max(value, self.low), self.high)
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / ((self.high - self.low) or 1.0)


def linear(low: float, high: float, count: int = 5) -> Scale:
    """A scale with about `count` round ticks."""
    if high <= low:
        high = low + 1.0
    rough = (high - low) / count
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    first = math.ceil(low / step - 1e-9)
    ticks = [index * step for index in range(first, math.floor(high / step + 1e-9) + 1)]
    return Scale(low, high, tuple((tick, f"{tick:g}" if abs(tick) > 1e-12 else "0") for tick in ticks))


def shares() -> Scale:
    """From 0 to 100 %."""
    return Scale(0.0, 1.0, tuple((tick / 100, f"{tick} %") for tick in (0, 25, 50, 75, 100)))


def log_shares(low: float = 0.001) -> Scale:
    """From a small share to 100 %, each power of ten as wide as the next."""
    ticks = ((0.001, "0.1 %"), (0.01, "1 %"), (0.1, "10 %"), (1.0, "100 %"))
    return Scale(low, 1.0, tuple(tick for tick in ticks if tick[0] >= low), log=True)


def steps(most: int) -> Scale:
    """Numbers of latent steps."""
    ticks = tuple((float(tick), str(tick)) for tick in (0, 20, 50, 100, 200, 500, 1000) if tick <= most)
    return Scale(0.0, float(most), ticks if most <= 200 else tuple(tick for tick in ticks if tick[0] not in (20, 50)))


def powers(low: int, high: int) -> Scale:
    """Powers of ten, each as wide as the next."""
    return Scale(10.0**low, 10.0**high, tuple((10.0**power, f"1e{power}") for power in range(low, high + 1)), log=True)


def ordinal(labels: Sequence[str]) -> Scale:
    """Labels at equal distances, at 0, 1, 2 …"""
    return Scale(-0.3, len(labels) - 0.7, tuple((float(at), label) for at, label in enumerate(labels)))


@dataclass(frozen=True)
class Axes:
    """A frame into which charts draw."""

    x: Scale
    y: Scale
    x_title: str
    y_title: str
    width: int = 480
    height: int = 300
    left: int = 58
    right: int = 24
    top: int = 12
    bottom: int = 46

    def across(self, value: float) -> float:
        """The horizontal place of a value, in the drawing's units."""
        return self.left + self.x.place(value) * (self.width - self.left - self.right)

    def down(self, value: float) -> float:
        """The vertical place of a value."""
        return self.height - self.bottom - self.y.place(value) * (self.height - self.top - self.bottom)

    def at(self, x: float, y: float) -> str:
        """A point as SVG writes it."""
        return f"{self.across(x):.1f},{self.down(y):.1f}"

    def drawn(self, label: str, parts: Sequence[str]) -> str:
        """The whole drawing: grid and ticks below, the given parts above."""
        return (
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{escape(label)}">'
            + "".join(self._grid())
            + "".join(parts)
            + "</svg>"
        )

    def _grid(self) -> list[str]:
        right, floor = self.width - self.right, self.height - self.bottom
        parts = []
        for value, label in self.y.ticks:
            y = self.down(value)
            parts.append(f'<line class="grid" x1="{self.left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text x="{self.left - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(label)}</text>')
        for value, label in self.x.ticks:
            x = self.across(value)
            parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{floor}" y2="{floor + 4}"/>')
            parts.append(f'<text x="{x:.1f}" y="{floor + 17}" text-anchor="middle">{escape(label)}</text>')
        middle, half = (self.left + right) / 2, (self.top + floor) / 2
        parts.append(f'<line class="axis" x1="{self.left}" x2="{right}" y1="{floor}" y2="{floor}"/>')
        parts.append(
            f'<text class="title" x="{middle:.1f}" y="{self.height - 8}" text-anchor="middle">'
            f"{escape(self.x_title)}</text>"
        )
        parts.append(
            f'<text class="title" transform="translate(13 {half:.1f}) rotate(-90)" text-anchor="middle">'
            f"{escape(self.y_title)}</text>"
        )
        return parts
