"""What an experiment shows: tables of plain words, for a terminal and for a page, and charts for the page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from html import escape

from alu.paper.store import NOT_YET, Measured, answer, both, ones
from alu.report.charts import Dot, chart, dots
from alu.report.page import table
from alu.stats import Estimate, Share

Legend = Sequence[tuple[str, str]]
"""Names and their colours."""


class Colour(StrEnum):
    """The colours of charts; grey is for what the paper reports."""

    GREY, BLACK, SLATE, BLUE, RED = "#a9b0bb", "#1c2430", "#8a93a3", "#2b5fab", "#b3362d"
    GREEN, PURPLE, AMBER, TEAL = "#1a7f4b", "#6b4ea3", "#c98a1b", "#0f7c8a"


@dataclass(frozen=True)
class Table:
    """Rows of plain words under a header; the first cell of a row is its name. A row of two is a remark across.

    A folded table is opened by a click and not printed: a figure beside it shows the same.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    folded: bool = False

    @staticmethod
    def empty(title: str, why: str = NOT_YET) -> Table:
        """In place of what has not been measured."""
        return Table(title, ["", ""], [["", why]])

    def text(self) -> str:
        """The table for a terminal, columns aligned."""
        lines = [list(self.header), *map(list, self.rows)]
        whole = [line for line in lines if len(line) == len(self.header)]
        widths = [max(len(line[column]) for line in whole) for column in range(len(self.header))]
        widths[0] = max(len(line[0]) for line in lines)
        aligned = ["  ".join(map(str.ljust, line, widths[: len(line)])).rstrip() for line in lines]
        rule = "-" * min(sum(widths) + 2 * len(widths), 118)
        return "\n".join([self.title, aligned[0], rule, *aligned[1:], *([self.note] if self.note else [])])

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


Panel = Table | Chart


def side_by_side(*drawings: str) -> Chart:
    """Charts in columns, as many as fit."""
    return Chart('<div class="charts">' + "".join(drawings) + "</div>")


def dot(name: str, value: Share, colour: str, group: str = "", paper: float | None = None) -> Dot:
    """One row of `dot_chart`; `paper` is the paper's own percentage, in grey on the same row."""
    return Dot(name, value, colour, group, None if paper is None else paper / 100)


def dot_chart(title: str, rows: Sequence[Dot], legend: Legend = ()) -> list[Panel]:
    """Shares with their intervals, one below the other; no chart where there are none."""
    return [Chart(chart(title, dots(title, rows), legend))] if rows else []


def percent(value: str | Share | Estimate | None) -> str:
    """Digits of a cell, a share or an estimate in percent, with interval and n; a dash where there is none."""
    known = ones(value) if isinstance(value, str) else value
    if known is None or not known.n:
        return "–"
    low, high = known.interval
    return f"{100 * known.value:.1f} [{100 * low:.1f}, {100 * high:.1f}] n={known.n}"


def points(difference: Estimate) -> str:
    """A difference of two shares in percentage points, with its sign and interval."""
    low, high = difference.interval
    return f"{100 * difference.value:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}] points"


def paper_number(value: float | None) -> str:
    """A percentage of the paper's own."""
    return "–" if value is None else f"paper {value:g}"


def paper_protocol(cells: Sequence[Measured | None], *path: str) -> list[str]:
    """Right answers of each cell at this place, whatever was answered clean."""
    return [percent(answer(cell, *path)) if cell else "–" for cell in cells]


def standard_protocol(cells: Sequence[Measured | None], *path: str) -> list[str]:
    """Right clean and right attacked; the first cell is the clean one, and fewer images are the first of more."""
    # Clean images are not all flagged: there the deployed answer counts.
    clean = answer(cells[0] or {}, *(path if path[-1] != "all flagged" else (path[0], "alu")))
    digits = [answer(cell or {}, *path) for cell in cells]
    return [percent(both(clean[: len(one)], one)) if one and clean else "–" for one in digits]
