"""Tables as data: rows of cells, written out by the macro `table` of `templates/macros.html.j2`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from alu.report.figures import FEWEST, Figure, Part, ShareFigure, share
from alu.stats import Share


@dataclass(frozen=True)
class Cell:
    """What stands in one place of a table: a line, and smaller lines below it."""

    parts: Sequence[Part] = ()
    small: Sequence[Sequence[Part]] = ()
    kind: str = ""
    """A class of the style sheet: "none", "few", "marked", "high" or "low"."""


NONE = Cell(["–"], kind="none")
TOO_FEW = Cell(["n too small"], kind="few")


@dataclass(frozen=True)
class Label:
    """The first cell of a row."""

    name: str
    small: Sequence[str] = ()
    knowledge: str = ""
    """What the attacker knows ("clean" for no attack), shown with its colour and used by the filter."""
    strong: bool = False
    link: str = ""
    """The anchor on this page that the name leads to."""


@dataclass(frozen=True)
class Row:
    """A label and its cells; or a label and a remark across all other columns."""

    label: Label
    cells: Sequence[Cell] = ()
    remark: str = ""
    heading: bool = False
    """Whether it begins a new part of the table; rows are sorted inside of their part."""


@dataclass(frozen=True)
class Column:
    """A column's title, and smaller lines below it."""

    title: str
    small: Sequence[str] = ()


@dataclass(frozen=True)
class Table:
    """Columns, rows, and titles that stand over several columns (title, how many columns)."""

    columns: Sequence[Column]
    rows: Sequence[Row]
    groups: Sequence[tuple[str, int]] = ()
    dense: bool = False
    levels: Sequence[str] = field(default=())
    """What attackers know, where rows can be filtered by it."""


def figure_cell(figure: Figure | None) -> Cell:
    """One number, or a dash."""
    return NONE if figure is None else Cell([figure])


def percent_cell(given: ShareFigure | None) -> Cell:
    """A share without its interval, or a dash."""
    return NONE if given is None else Cell(given.amount)


def share_cell(given: ShareFigure | None, *, n: bool = True) -> Cell:
    """A share with its interval below, and n where no other cell says it; or a dash."""
    if given is None:
        return NONE
    return Cell(given.amount, [[*given.interval, " n = ", given.n] if n else given.interval])


def enough_cell(key: str, given: Share | None) -> Cell:
    """A share with its interval and n, unless there are too few images."""
    return TOO_FEW if given is not None and 0 < given.n < FEWEST else share_cell(share(key, given))
