"""Figures: every number on a page carries its key and its exact value, so that the page can be read back and checked.

Nothing here is HTML: the macros of `templates/macros.html.j2` write figures out.
"""

from __future__ import annotations

from dataclasses import dataclass

from alu.stats import Share

FEWEST = 12
"""The 95 % interval of a share of fewer images can span more than half of all values; such shares are not shown."""
WIDEST = 0.5
"""An interval that spans more than this says nothing; its figure is not shown."""


@dataclass(frozen=True)
class Figure:
    """A number as it is shown, with what it is and its exact value."""

    key: str
    value: float
    text: str


Part = str | Figure
"""A piece of a sentence or of a cell."""


@dataclass(frozen=True)
class ShareFigure:
    """A share of images: in percent, with the ends of its 95 % Wilson interval, as a count, and n."""

    percent: Figure
    low: Figure
    high: Figure
    count: Figure
    n: Figure
    at_most: bool = False
    """Whether it is an upper bound."""

    @property
    def amount(self) -> list[Part]:
        """The percentage, with "at most" where it is a bound."""
        return ["at most ", self.percent] if self.at_most else [self.percent]

    @property
    def interval(self) -> list[Part]:
        """[low, high]."""
        return ["[", self.low, ", ", self.high, "]"]


def count(key: str, value: int) -> Figure:
    """A whole number."""
    return Figure(key, value, str(value))


def number(key: str, value: float, digits: int = 1) -> Figure:
    """A number with so many digits behind the point."""
    return Figure(key, value, f"{value:.{digits}f}")


def percent(key: str, value: float) -> Figure:
    """A part of 1, in percent."""
    return Figure(key, value, f"{100 * value:.1f} %")


def share(key: str, given: Share | None, *, at_most: bool = False) -> ShareFigure | None:
    """A share with all that can be shown of it; None where there is no image."""
    if given is None or given.n == 0:
        return None
    low, high = given.interval
    return ShareFigure(
        percent(key, given.value),
        Figure(f"{key}.low", low, f"{100 * low:.1f}"),
        Figure(f"{key}.high", high, f"{100 * high:.1f}"),
        count(f"{key}.count", given.count),
        count(f"{key}.n", given.n),
        at_most,
    )


def distance(key: str, value: float, norm: str) -> Figure:
    """A distance: in gray levels for L∞, where that is how eps is written."""
    return Figure(key, value, f"{255 * value:.1f}/255" if norm == "Linf" else f"{value:.3f}")
