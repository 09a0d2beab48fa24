"""Small charts as inline SVG: logit bars, histograms, lines, clouds of points, and shares one below the other.

Every colour is a variable of the style sheet, so that a drawing fits a light page and a dark one. `standalone` writes
the light colours out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path

from alu.report.axes import Axes, Scale, linear
from alu.report.page import Part
from alu.stats import Share

INK = "var(--ink)"
GREY = "var(--grey)"
"""The colour of what others published."""
COLOURS = {level: f"var(--{level})" for level in ("clean", "oblivious", "surrogate", "adaptive")}
"""One colour for clean images and one for each attacker, in every chart of a page."""
OTHER = "var(--other)"
STYLE = Path(__file__).with_name("style.css")
ROW, GAP, WIDTH, LEFT, RIGHT, FOOT = 22, 10, 840, 320, 250, 22
"""The measures of `dots`."""


@dataclass(frozen=True)
class Group:
    """Values of one kind, drawn in one colour."""

    name: str
    colour: str
    values: Sequence[float]


@dataclass(frozen=True)
class Line:
    """Points joined by a line; `marks` are points that stand out, each with its key, words, and whiskers if any."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]
    marks: Sequence[Mark] = ()
    stepped: bool = False
    dashes: str = ""
    """The pattern of its strokes, as SVG writes it; whole without one."""


@dataclass(frozen=True)
class Mark:
    """One point that stands for a figure."""

    key: str
    x: float
    y: float
    says: str
    ends: tuple[float, float] | None = None


@dataclass(frozen=True)
class Chart:
    """A drawing with its title, its legend (name, colour) and a remark below it."""

    title: str
    drawing: str
    legend: Sequence[tuple[str, str]] = ()
    note: Sequence[Part] = ()


def bars(classes: Sequence[str], before: Sequence[float], after: Sequence[float], mark: int) -> str:
    """Logits before (grey) and after (blue) purification for each class; the true class is set in bold."""
    width, row, left = 340, 15, 86
    low, high = min(0.0, *before, *after), max(0.0, *before, *after)
    scale = (width - left - 10) / ((high - low) or 1.0)
    zero = left - low * scale
    parts = [f'<svg viewBox="0 0 {width} {row * len(classes) + 4}" role="img" aria-label="logits before and after">']
    for index, name in enumerate(classes):
        top = 2 + index * row
        kind = ' class="true"' if index == mark else ""
        parts.append(f'<text x="{left - 6}" y="{top + 10}" text-anchor="end"{kind}>{escape(name)}</text>')
        for offset, values, colour in ((1, before, "var(--before)"), (7, after, "var(--after)")):
            length = values[index] * scale
            x = zero + min(0.0, length)
            parts.append(f'<rect x="{x:.1f}" y="{top + offset}" width="{abs(length):.1f}" height="5" fill="{colour}"/>')
    parts.append(
        f'<line x1="{zero:.1f}" x2="{zero:.1f}" y1="0" y2="{row * len(classes) + 2}" stroke="var(--axis)"/></svg>'
    )
    return "".join(parts)


def histogram(
    groups: Sequence[Group], threshold: float | None, bins: int = 40, other: tuple[str, float] | None = None
) -> str:
    """Shares of scores in bins, one outline per group, with the threshold as a line; `other` is a second one, named."""
    values = sorted(value for group in groups for value in group.values)
    # A few huge scores would squeeze all others into one bin: the last bin holds what lies beyond it.
    room = [] if threshold is None else [threshold + 0.25 * abs(threshold)]  # scores of some detectors are negative
    top = max([values[int(0.98 * (len(values) - 1))], *room])
    x = linear(min(0.0, values[0]), top or 1.0, 6)
    counts = {group.name: _counts(group.values, x, bins) for group in groups}
    peak = max(max(counts[group.name]) / len(group.values) for group in groups)
    y = Scale(0.0, peak, tuple((tick, f"{100 * tick:g} %") for tick, _ in linear(0.0, peak, 4).ticks))
    axes = Axes(x, y, "suspicion score (last bin: this and above)", "share of images", width=720, height=280)
    parts, step = [], (x.high - x.low) / bins
    for group in groups:
        points = [axes.at(x.low, 0)]
        for index, number in enumerate(counts[group.name]):
            height = number / len(group.values)
            points += [axes.at(x.low + index * step, height), axes.at(x.low + (index + 1) * step, height)]
        points.append(axes.at(x.high, 0))
        parts.append(
            f'<polygon points="{" ".join(points)}" fill="{group.colour}" fill-opacity=".14" stroke="{group.colour}"'
            f' stroke-width="1.5" data-counts="{" ".join(map(str, counts[group.name]))}">'
            f"<title>{escape(group.name)}</title></polygon>"
        )
    marks = [] if threshold is None else [("" if other is None else "dashed: ", "flagged above", threshold, "4 3")]
    if other is not None:
        marks.append(("dotted: ", other[0], other[1], "1 3"))
    lines_at = [axes.across(value) for _, _, value, _ in marks]
    # Words stand beside all lines, so that none crosses them, and on the side that has room.
    left = bool(marks) and max(lines_at) > axes.width / 2
    for row, ((which, name, value, dashes), at) in enumerate(zip(marks, lines_at, strict=True)):
        place, anchor = (min(lines_at) - 5, "end") if left else (max(lines_at) + 5, "start")
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="6" y2="{axes.down(0):.1f}" stroke="{INK}"'
            f' stroke-dasharray="{dashes}"/>'
            f'<text x="{place:.1f}" y="{17 + 16 * row}" text-anchor="{anchor}">{which}{escape(name)} {value:.3g}</text>'
        )
    return axes.drawn("histogram of the suspicion score", parts)


def _counts(values: Sequence[float], x: Scale, bins: int) -> list[int]:
    counts = [0] * bins
    for value in values:
        counts[min(int(bins * x.place(value)), bins - 1)] += 1
    return counts


def lines(axes: Axes, label: str, drawn: Sequence[Line], upright: float | None = None, named: str = "") -> str:
    """Lines with their marks, and an upright dashed line where one is asked for; `named`: with the name of each line
    beside its last "mark", or behind its "end"."""
    parts = []
    if upright is not None:
        at = axes.across(upright)
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{axes.top}" y2="{axes.down(axes.y.low):.1f}" stroke="{INK}"'
            ' stroke-dasharray="4 3"/>'
        )
    for line in drawn:
        points = _stairs(line.points) if line.stepped else line.points
        path = " ".join(axes.at(x, y) for x, y in points)
        dashes = f' stroke-dasharray="{line.dashes}"' if line.dashes else ""
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="1.7" stroke-opacity=".8"'
            f"{dashes}><title>{escape(line.name)}</title></polyline>"
        )
    parts += [_mark(axes, mark, line.colour) for line in drawn for mark in line.marks]
    return axes.drawn(label, parts + (_names(axes, drawn, named) if named else []))


def _names(axes: Axes, drawn: Sequence[Line], where: str) -> list[str]:
    """Each line's name, pushed down or up where two would overlap."""
    wanted = []
    for line in drawn:
        if where == "mark" and line.marks:
            # Below and right of it: there no line runs that can only rise.
            wanted.append((axes.down(line.marks[-1].y) + 13, axes.across(line.marks[-1].x) + 8, line))
        elif where == "end" and line.points:
            wanted.append((axes.down(line.points[-1][1]), float(axes.width - axes.right + 8), line))
    wanted.sort(key=lambda row: row[0])
    height, floor = 15.0, axes.height - axes.bottom - 6.0
    places: list[float] = []
    for y, _, _ in wanted:
        places.append(max(y, places[-1] + height if places else axes.top + 4.0))
    for number in reversed(range(len(places))):  # what was pushed out below comes back up
        places[number] = min(places[number], floor - height * (len(places) - 1 - number))
    return [
        f'<text class="name" x="{x:.1f}" y="{place + 4:.1f}" style="fill:{line.colour};font-weight:600;'
        f'paint-order:stroke;stroke:var(--page);stroke-width:4px">{escape(line.name)}</text>'
        for place, (_, x, line) in zip(places, wanted, strict=True)
    ]


def _stairs(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The same points, joined level first and then upright."""
    stairs = list(points[:1])
    for (_, before), (x, y) in pairwise(points):
        stairs += [(x, before), (x, y)]
    return stairs


def _mark(axes: Axes, mark: Mark, colour: str) -> str:
    x, y = axes.across(mark.x), axes.down(mark.y)
    whisker = ""
    if mark.ends is not None:
        low, high = (axes.down(end) for end in mark.ends)
        whisker = f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}" stroke="{colour}"/>'
    return (
        f'{whisker}<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}" stroke="var(--page)"'
        f' data-key="{escape(mark.key)}" data-x="{mark.x!r}" data-value="{mark.y!r}">'
        f"<title>{escape(mark.says)}</title></circle>"
    )


def cloud(axes: Axes, label: str, group: Sequence[tuple[float, float]], colour: str) -> str:
    """Points, and the diagonal they are compared with; points beyond the frame are rings on it."""
    low, high = max(axes.x.low, axes.y.low), min(axes.x.high, axes.y.high)
    parts = []
    if low < high:
        ends = f"{axes.at(low, low)} {axes.at(high, high)}"
        parts.append(f'<polyline points="{ends}" stroke="{INK}" stroke-dasharray="4 3"/>')
    for x, y in group:
        inside = axes.x.low <= x <= axes.x.high and axes.y.low <= y <= axes.y.high
        look = f'fill="{colour}" fill-opacity=".55"' if inside else f'class="ring" stroke="{colour}"'
        parts.append(f'<circle cx="{axes.across(x):.1f}" cy="{axes.down(y):.1f}" r="2.4" {look}/>')
    return axes.drawn(label, parts)


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
        """The key of its point."""
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
        parts.append(_dot_row(row, below + ROW / 2))
        below += ROW
    scale = []
    for tick in (0, 25, 50, 75, 100):
        x = _share_across(tick / 100)
        scale.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="2" y2="{below:.1f}"/>')
        scale.append(f'<text x="{x:.1f}" y="{below + FOOT - 6:.1f}" text-anchor="middle">{tick} %</text>')
    head = f'<svg class="dots" viewBox="0 0 {WIDTH} {below + FOOT:g}" role="img" aria-label="{escape(label)}">'
    return "".join([head, *scale, *parts, "</svg>"])


def _dot_row(row: Dot, y: float) -> str:
    """The name, the interval, both points, and the figures in words."""
    low, high = row.share.interval
    says = f"{100 * row.share.value:.1f} [{100 * low:.1f}, {100 * high:.1f}] n={row.share.n}"
    theirs = ""
    if row.theirs is not None:
        says += f"; paper {100 * row.theirs:.4g}"
        theirs = _point(row.theirs, y, GREY, f"{row.key}: the paper")
    return (
        f'<text x="{LEFT - 12}" y="{y + 4:.1f}" text-anchor="end">{escape(row.name)}</text>{theirs}'
        f'<line x1="{_share_across(low):.1f}" x2="{_share_across(high):.1f}" y1="{y:.1f}" y2="{y:.1f}"'
        f' stroke="{row.colour}" stroke-width="2"/>'
        + _point(row.share.value, y, row.colour, row.key)
        + f'<text x="{WIDTH - RIGHT + 14}" y="{y + 4:.1f}">{says}</text>'
    )


def _point(value: float, y: float, colour: str, key: str) -> str:
    return (
        f'<circle cx="{_share_across(value):.1f}" cy="{y:.1f}" r="4.5" fill="{colour}" stroke="var(--page)"'
        f' data-key="{escape(key)}" data-value="{value!r}"/>'
    )


def standalone(drawing: str, legend: Sequence[tuple[str, str]] = ()) -> str:
    """The same drawing as a file of its own: on white, below its legend, with the light colours of the style sheet
    written out."""
    style = (
        "<style>text { font: 12px system-ui, sans-serif; fill: var(--soft); } .title, .true { font-weight: 600; fill: "
        "var(--ink); } .grid { stroke: var(--line); } .axis { stroke: var(--axis); }</style>"
    )
    above = ROW * len(legend)
    parts = [style, f'<rect y="{-above}" width="100%" height="100%" fill="var(--page)"/>']
    for row, (name, colour) in enumerate(legend):
        y = ROW * row - above
        parts.append(f'<rect x="8" y="{y + 6}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="24" y="{y + 15}">{escape(name)}</text>')
    head, rest = drawing.split(">", 1)
    head = re.sub(
        r'<svg (.*)viewBox="0 0 (\d+) (\d+)"',
        lambda box: (
            f'<svg xmlns="http://www.w3.org/2000/svg" {box[1]}viewBox="0 {-above} {box[2]} {int(box[3]) + above}"'
            f' width="{box[2]}"'
        ),
        head,
    )
    whole = "".join([head, ">", *parts, rest, "\n"])
    light, _ = STYLE.read_text(encoding="utf-8").split("@media", 1)
    colours = dict(re.findall(r"(--\w+): (#\w+);", light))
    return re.sub(r"var\((--\w+)\)", lambda variable: colours[variable[1]], whole)


def _share_across(value: float) -> float:
    return LEFT + value * (WIDTH - LEFT - RIGHT)
