"""Shares one below the other, each a dot with its interval: for comparing a few figures of different kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from alu.evaluation.intervals import Share

ROW, WIDTH, LEFT, RIGHT, FOOT = 24, 715, 310, 175, 22


@dataclass(frozen=True)
class Dot:
    """One share, with the words left of it and its key; of a figure that others published only its value is known."""

    name: str
    share: Share | float
    colour: str

    @property
    def value(self) -> float:
        """The share itself."""
        return self.share.value if isinstance(self.share, Share) else self.share


def dots(label: str, rows: Sequence[Dot]) -> str:
    """An SVG with a row for each share, from 0 to 100 %."""
    height = ROW * len(rows) + FOOT
    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">']
    for tick in (0, 25, 50, 75, 100):
        x = _across(tick / 100)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="2" y2="{height - FOOT}"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - 6}" text-anchor="middle">{tick} %</text>')
    for number, row in enumerate(rows):
        y, says, whisker = number * ROW + ROW / 2, f"{100 * row.value:.1f}", ""
        if isinstance(row.share, Share):
            low, high = row.share.interval
            says += f" [{100 * low:.1f}, {100 * high:.1f}] n={row.share.n}"
            whisker = (
                f'<line x1="{_across(low):.1f}" x2="{_across(high):.1f}" y1="{y:.1f}" y2="{y:.1f}"'
                f' stroke="{row.colour}" stroke-width="2"/>'
            )
        parts.append(
            f'<text x="{LEFT - 12}" y="{y + 4:.1f}" text-anchor="end">{escape(row.name)}</text>{whisker}'
            f'<circle cx="{_across(row.value):.1f}" cy="{y:.1f}" r="4.5" fill="{row.colour}" stroke="#fff"'
            f' data-key="{escape(row.name)}" data-value="{row.value!r}"/>'
            f'<text x="{WIDTH - RIGHT + 14}" y="{y + 4:.1f}">{says}</text>'
        )
    return "".join(parts) + "</svg>"


def alone(drawing: str) -> str:
    """The same drawing as a file of its own: with the style that a page would give it, on white."""
    style = (
        "<style>text { font: 12px system-ui, sans-serif; fill: #5c6473; } .grid { stroke: #dde1e8; }</style>"
        '<rect width="100%" height="100%" fill="#fff"/>'
    )
    head, rest = drawing.split(">", 1)
    return head.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1) + ">" + style + rest + "\n"


def _across(value: float) -> float:
    return LEFT + value * (WIDTH - LEFT - RIGHT)
