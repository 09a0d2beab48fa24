"""Shapes of what is shown: tables of plain words, which a terminal and a page can both show, and charts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from alu.evaluation.intervals import Share
from alu.evaluation.resampling import Estimate
from alu.report.page import table


@dataclass(frozen=True)
class Table:
    """Rows of plain words under a header; the first cell of a row is its name. A row of two is a remark across.

    A folded one is opened by whoever wants it, and not printed: a figure beside it shows the same.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    folded: bool = False

    def text(self) -> str:
        """The table for a terminal, columns aligned."""
        lines = [list(self.header), *map(list, self.rows)]
        whole = [line for line in lines if len(line) == len(self.header)]
        widths = [max(len(line[column]) for line in whole) for column in range(len(self.header))]
        widths[0] = max(len(line[0]) for line in lines)
        shown = ["  ".join(map(str.ljust, line, widths[: len(line)])) for line in lines]
        ruled = [
            shown[0].rstrip(),
            "-" * min(sum(widths) + 2 * len(widths), 118),
            *(line.rstrip() for line in shown[1:]),
        ]
        return "\n".join([self.title, *ruled, *([self.note] if self.note else [])])

    def html(self) -> str:
        """The table for a page."""
        rows = [[escape(name), *(_stacked(cell) for cell in cells)] for name, *cells in self.rows]
        note = f'<p class="soft">{escape(self.note)}</p>' if self.note else ""
        title, cells = escape(self.title), table([escape(cell) for cell in self.header], rows, dense=True) + note
        if self.folded:
            return f'<details class="folded"><summary>{title}</summary>{cells}</details>'
        return f"<h3>{title}</h3>{cells}"


def _stacked(cell: str) -> str:
    """A cell with intervals below their values, so that a wide table fits on a sheet."""
    return re.sub(r" (\[[^\]]*\](?: n=\d+)?)", r"<br><small>\1</small>", escape(cell))


@dataclass(frozen=True)
class Chart:
    """A drawing, as HTML already."""

    drawing: str

    def text(self) -> str:
        """Nothing: a terminal shows tables."""
        return ""

    def html(self) -> str:
        """The drawing."""
        return self.drawing


Shown = Table | Chart


def side_by_side(*drawings: str) -> Chart:
    """Charts in columns, as many as fit."""
    return Chart('<div class="charts">' + "".join(drawings) + "</div>")


def percent(share: Share | Estimate | None) -> str:
    """A share with its interval and n; a dash where there is none."""
    if share is None or not share.n:
        return "–"
    low, high = share.interval
    return f"{100 * share.value:.1f} [{100 * low:.1f}, {100 * high:.1f}] n={share.n}"


def points(gained: Estimate) -> str:
    """A difference of two shares in points, with its sign and interval."""
    low, high = gained.interval
    return f"{100 * gained.value:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}] points"


def said_by_the_paper(value: float | None) -> str:
    """A percentage of the paper's."""
    return "–" if value is None else f"paper {value:g}"


def nothing(title: str) -> Table:
    """In place of what has not been measured."""
    return Table(title, ["", ""], [["", "not measured yet"]])
