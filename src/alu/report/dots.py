"""Shares one below the other, each a dot with its interval: for comparing a few figures of different kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from alu.stats import Share

ROW, GAP, WIDTH, LEFT, RIGHT, FOOT = 22, 10, 840, 320, 250, 22
GREY = "#a9b0bb"
"""The colour of what others published."""


@dataclass(frozen=True)
class Dot:
    """One share with the words left of it; rows of one group stand together under its name.

    theirs: what others published for the same, in grey on the same line.
    """

    name: str
    share: Share
    colour: str
    group: str = ""
    theirs: float | None = None

    @property
    def key(self) -> str:
        """What the point is found by."""
        return f"{self.group}: {self.name}" if self.group else self.name


def dots(label: str, rows: Sequence[Dot]) -> str:
    """An SVG with a row for each share, from 0 to 100 %."""
    below, parts = 0.0, []
    for number, row in enumerate(rows):
        if row.group and (not number or row.group != rows[number - 1].group):
            if number:
                below += GAP
                line = below - GAP / 2
                parts.append(f'<line class="grid" x1="0" x2="{WIDTH}" y1="{line:.1f}" y2="{line:.1f}"/>')
            parts.append(f'<text class="title" x="2" y="{below + ROW / 2 + 4:.1f}">{escape(row.group)}</text>')
        parts.append(_row(row, below + ROW / 2))
        below += ROW
    scale = []
    for tick in (0, 25, 50, 75, 100):
        x = _across(tick / 100)
        scale.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="2" y2="{below:.1f}"/>')
        scale.append(f'<text x="{x:.1f}" y="{below + FOOT - 6:.1f}" text-anchor="middle">{tick} %</text>')
    head = f'<svg class="dots" viewBox="0 0 {WIDTH} {below + FOOT:g}" role="img" aria-label="{escape(label)}">'
    return "".join([head, *scale, *parts, "</svg>"])


def _row(row: Dot, y: float) -> str:
    """The name, the interval, both points, and the figures in words."""
    low, high = row.share.interval
    says = f"{100 * row.share.value:.1f} [{100 * low:.1f}, {100 * high:.1f}] n={row.share.n}"
    theirs = ""
    if row.theirs is not None:
        says += f"; paper {100 * row.theirs:.4g}"
        theirs = _point(row.theirs, y, GREY, f"{row.key}: the paper")
    return (
        f'<text x="{LEFT - 12}" y="{y + 4:.1f}" text-anchor="end">{escape(row.name)}</text>{theirs}'
        f'<line x1="{_across(low):.1f}" x2="{_across(high):.1f}" y1="{y:.1f}" y2="{y:.1f}"'
        f' stroke="{row.colour}" stroke-width="2"/>'
        + _point(row.share.value, y, row.colour, row.key)
        + f'<text x="{WIDTH - RIGHT + 14}" y="{y + 4:.1f}">{says}</text>'
    )


def _point(value: float, y: float, colour: str, key: str) -> str:
    return (
        f'<circle cx="{_across(value):.1f}" cy="{y:.1f}" r="4.5" fill="{colour}" stroke="#fff"'
        f' data-key="{escape(key)}" data-value="{value!r}"/>'
    )


def alone(drawing: str) -> str:
    """The same drawing as a file of its own: with the style that a page would give it, on white."""
    style = (
        "<style>text { font: 12px system-ui, sans-serif; fill: #5c6473; } .title { font-weight: 600; fill: #1c2430; } "
        '.grid { stroke: #dde1e8; }</style><rect width="100%" height="100%" fill="#fff"/>'
    )
    head, rest = drawing.split(">", 1)
    return head.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1) + ">" + style + rest + "\n"


def _across(value: float) -> float:
    return LEFT + value * (WIDTH - LEFT - RIGHT)
