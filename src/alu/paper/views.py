"""What an experiment shows: tables of plain words, for a terminal and for the page, and charts for the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from alu.paper.store import NOT_YET, Measured, answer, both, incomplete, ones, standing
from alu.report.axes import Axes
from alu.report.charts import Chart, Dot, Line, Mark, dots, lines
from alu.stats import Estimate, Share

Legend = Sequence[tuple[str, str]]
"""Names and their colours."""


class Colour(StrEnum):
    """The colours of charts, variables of the style sheet; grey is for what the paper reports."""

    GREY = "var(--grey)"
    BLACK = "var(--ink)"
    SLATE = "var(--slate)"
    BLUE = "var(--blue)"
    RED = "var(--red)"
    GREEN = "var(--green)"
    PURPLE = "var(--purple)"
    AMBER = "var(--amber)"
    TEAL = "var(--teal)"


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

    def __post_init__(self) -> None:
        if not self.rows:
            object.__setattr__(self, "rows", [["", NOT_YET]])

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


Charts = tuple[Chart, ...]
"""Charts side by side, as many as fit."""
Panel = Table | Charts


def dot(name: str, value: Share, colour: str, group: str = "", paper: float | None = None) -> Dot:
    """One row of `dot_chart`; `paper` is the paper's own percentage, in grey on the same row."""
    return Dot(name, value, colour, group, None if paper is None else paper / 100)


def dot_chart(title: str, rows: Sequence[Dot], legend: Legend = ()) -> list[Panel]:
    """Shares with their intervals, one below the other; no chart where there are none."""
    return [(Chart(title, dots(title, rows), legend),)] if rows else []


def curve(label: str, colour: str, figures: Iterable[tuple[float, Share | Estimate]], form: str = "") -> Line:
    """A line through figures with their intervals; in percent, or in the given number format."""
    marks = []
    for x, figure in figures:
        shown = figure.shown(form) if isinstance(figure, Estimate) and form else percent(figure)
        marks.append(Mark(f"{label}/{x}", float(x), figure.value, f"{label}, {x:g}: {shown}", figure.interval))
    return Line(label, colour, [(mark.x, mark.y) for mark in marks], marks)


def line_chart(caption: str, axes: Axes, ours: Sequence[Line], note: str = "", paper: Sequence[Line] = ()) -> Chart:
    """Our lines over those of the paper, with a legend."""
    legend = [(line.name, line.colour) for line in ours] + ([("the paper", Colour.GREY)] if paper else [])
    return Chart(caption, lines(axes, caption, [*paper, *ours]), legend, [note] if note else [])


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


def every_attack(union: Measured | None, cells: Iterable[Measured | None] = (), *path: str) -> str:
    """What stands under the adaptive suite and under the attacks of these cells; a dash where the suite was not run."""
    return percent(standing(union, cells, *path)) + incomplete(union) if union else "–"


@dataclass(frozen=True)
class Row:
    """What one system answered: a cell for each column, the clean one first, and where answers stand in a cell."""

    name: str
    cells: Sequence[Measured | None]
    path: Sequence[str]
    union: Measured | None = None
    """What the adaptive suite leaves of it."""
    together: Sequence[Measured | None] | None = None
    """The cells whose attacks count with the suite's, if these are not all."""
    paper: Sequence[float | None] = ()
    """The paper's own percentages, by column."""
    why: str = ""
    """Why nothing was measured; without a reason and without cells, only the paper's percentages are shown."""


def protocols(
    title: str, columns: Iterable[str], rows: Iterable[Row], paper_note: str = "", standard_note: str = ""
) -> list[Panel]:
    """Two tables with a note each: right answers beside the paper's, and those that were right clean too."""
    paper, standard = [], []
    for row in rows:
        if row.paper:
            paper.append([f"{row.name}: the paper", *map(paper_number, row.paper)])
        if not any(row.cells) and not row.why:
            continue
        name = f"{row.name}: here" if row.paper else row.name
        together = every_attack(row.union, row.cells if row.together is None else row.together, *row.path)
        paper.append([name, *(paper_protocol(row.cells, *row.path) if any(row.cells) else [row.why])])
        if row.path[-1] != "flagged":
            kept = [*standard_protocol(row.cells, *row.path), together]
            standard.append([row.name, *(kept if row.cells[0] else [row.why or NOT_YET])])
    header, kept_title = ["", *columns], f"{title}: right clean and right attacked, percent (standard protocol)"
    return [
        Table(f"{title}: right answers, percent (paper protocol)", header, paper, paper_note),
        Table(kept_title, [*header, "every attack together"], standard, standard_note),
    ]
