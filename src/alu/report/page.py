"""Self-contained pages: one file with style and script inside, no network, readable without script and in print.

`render` fills a template with figures and tables of them. Every figure carries its key and its exact value, so that a
page can be read back and checked. Nothing here is HTML: the macros of `templates/macros.html.j2` write it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from alu.stats import Share
from alu.storage import replacing

HERE = Path(__file__).parent
FEWEST = 12
"""The 95 % interval of a share of fewer images can span more than half of all values; such shares are not shown."""
WIDEST = 0.5
"""An interval that spans more than this says nothing; its figure is not shown."""


@cache
def environment() -> Environment:
    """The templates: what is filled into HTML is escaped, and a name that is not there is an error."""
    templates = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=lambda name: name is None or not name.endswith(".md.j2"),
        undefined=StrictUndefined,
        lstrip_blocks=True,
    )
    templates.globals["style"] = (HERE / "style.css").read_text(encoding="utf-8")
    templates.globals["script"] = (HERE / "script.js").read_text(encoding="utf-8")
    return templates


def render(template: str, **context: object) -> str:
    """A whole page."""
    return environment().get_template(template).render(**context)


def write(path: Path, text: str) -> None:
    """Write a page atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


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
class Row:
    """A name and its cells; or a name and a remark across all other columns."""

    name: str
    cells: Sequence[Cell] = ()
    small: Sequence[str] = ()
    """Smaller lines below the name."""
    knowledge: str = ""
    """What the attacker knows ("clean" for no attack), shown with its colour and used by the filter."""
    strong: bool = False
    link: str = ""
    """The anchor on this page that the name leads to."""
    remark: str = ""
    heading: bool = False
    """Whether it begins a new part of the table; rows are sorted inside of their part."""


@dataclass(frozen=True)
class Table:
    """Columns, rows, and titles that stand over several columns (title, how many columns).

    The first line of a column is its title, further ones stand below it in smaller letters.
    """

    columns: Sequence[str]
    rows: Sequence[Row]
    groups: Sequence[tuple[str, int]] = ()
    dense: bool = False
    levels: Sequence[str] = ()
    """What attackers know, where rows can be filtered by it."""


def figure_cell(figure: Figure | None) -> Cell:
    """One number, or a dash."""
    return NONE if figure is None else Cell([figure])


def share_cell(key: str, given: Share | None, *, n: bool = True, at_most: bool = False) -> Cell:
    """A share with its interval below, and n where no other cell says it; or a dash."""
    figures = share(key, given, at_most=at_most)
    if figures is None:
        return NONE
    return Cell(figures.amount, [[*figures.interval, " n = ", figures.n] if n else figures.interval])


def enough_cell(key: str, given: Share | None) -> Cell:
    """A share with its interval and n, unless there are too few images."""
    return TOO_FEW if given is not None and 0 < given.n < FEWEST else share_cell(key, given)
