"""The two ablations, in the paper's axes with its points in grey: accuracy and detection against N and the rate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from alu.report.axes import Axes, Scale, powers, shares, steps
from alu.report.charts import Line, Mark, chart, lines
from alu.report.paper import published
from alu.report.paper.results import Results, share
from alu.report.paper.shape import Shown, Table, nothing, percent, side_by_side

GREY = "#a9b0bb"
CLEAN, ATTACKED, THROUGH, TRAIN = "#2b5fab", "#b3362d", "#6b4ea3", "#1a7f4b"
PAPERS = "cifar10-unified"
"""The classifier of the paper's ablations: their clean accuracy is that of Unified ALU in its tables."""
SETTINGS = {"gd, sse": CLEAN, "gd, mse": TRAIN, "gd, norm": "#c98a1b", "adam, sse": ATTACKED}
READINGS = ("reconstruction", "input")
CHOSEN = (0, 2, 10, 50, 100, 200, 1000)
"""Numbers of steps that the tables of the other classifiers show."""
SURROGATE = "pgd-20 on f(D(E))"
Row = dict[str, Any]
"""By kind of image, what one setting gave."""
Read = Callable[[Row], str]
Curves = dict[str, tuple[str, Read]]


def iterations(results: Results) -> list[Shown]:
    """Accuracy and detection against N, for each start; the other classifiers are drawn for the encoder's only."""
    made: list[Shown] = []
    for start, found in results.cells("iterations").items():
        for classifier in _classifiers(found):
            by = {int(count): _at(found[classifier], count) for count in found[classifier]["clean"]}
            name = f"{classifier}, {start} start"
            if classifier == PAPERS or start == "encoder":
                for reading in READINGS:
                    paper = published.ITERATIONS if (classifier, reading) == (PAPERS, READINGS[0]) else {}
                    made.append(_sweep(name, by, steps(max(by)), "latent steps N", reading, paper))
            few = {f"N = {at}": row for at, row in by.items() if classifier == PAPERS or at in CHOSEN}
            made += _tables(f"{name}, {found['solver']}", few)
    return made or [nothing("Iterations")]


def learning_rate(results: Results) -> list[Shown]:
    """For each classifier all solvers and objectives together; for the paper's own, each of them in its axes too."""
    cells = results.cells("learning-rate")
    made: list[Shown] = []
    for classifier in _classifiers(next(iter(cells.values()), {})):
        by: dict[str, dict[float, Row]] = {}
        for key, found in cells.items():
            setting, _, rate = key.rpartition(", ")
            (count,) = found[classifier]["clean"]
            by.setdefault(setting, {})[float(rate)] = _at(found[classifier], count)
        for reading in READINGS:
            made.append(_overview(classifier, by, reading))
        if classifier == PAPERS:
            axis = Scale(0.0, 0.01, tuple((tick / 1000, f"{tick}") for tick in (0, 2, 4, 6, 8, 10)))
            for setting, rows in by.items():
                near = {rate: row for rate, row in rows.items() if rate <= axis.high}
                title, paper = "learning rate (E-03)", published.LEARNING_RATE
                made.append(_sweep(f"{classifier}, {setting}", near, axis, title, READINGS[0], paper))
        every = {f"{setting}, {rate:g}": row for setting, rows in by.items() for rate, row in sorted(rows.items())}
        made += _tables(classifier, every)
    return made or [nothing("Learning rate")]


def _classifiers(found: dict[str, Any]) -> list[str]:
    return [name for name, value in found.items() if isinstance(value, dict)]


def _at(found: dict[str, Any], count: str) -> Row:
    return {kind: found[kind][count] for kind in ("clean", "pgd-20 on f", SURROGATE)}


def _sweep(name: str, rows: dict[Any, Row], x: Scale, title: str, reading: str, paper: published.Curve) -> Shown:
    """Two charts: accuracy if no clean image and every attacked one were flagged, as in the paper's figures, with the
    deployed one beside it; and detection. The paper's figures fit the reconstruction reading: its points are there."""
    accuracy: Curves = {
        "clean, if none were flagged": (TRAIN, lambda row: row["clean"]["purified"]),
        "clean, deployed": (CLEAN, lambda row: row["clean"][reading]["alu"]),
        "attacked, if all were flagged": (ATTACKED, lambda row: row[SURROGATE][reading]["all flagged"]),
        "attacked, deployed": (THROUGH, lambda row: row[SURROGATE][reading]["alu"]),
    }
    detection: Curves = {
        "attacked images flagged": (ATTACKED, lambda row: row[SURROGATE][reading]["flagged"]),
        "clean images not flagged": (CLEAN, lambda row: _inverse(row["clean"][reading]["flagged"])),
    }
    theirs = ({"clean": "clean, if none were flagged", "attacked": "attacked, if all were flagged"},
              {"detected": "attacked images flagged", "clean not flagged": "clean not flagged"})  # fmt: skip
    drawn = []
    for what, curves, known in zip(("Accuracy", "Detection"), (accuracy, detection), theirs, strict=True):
        made = [_line(label, colour, rows, read) for label, (colour, read) in curves.items()]
        drawn.append(_chart(f"{what} against the {title}: {name}", x, title, made, _grey(paper, known), reading))
    return side_by_side(*drawn)


def _overview(classifier: str, by: dict[str, dict[float, Row]], reading: str) -> Shown:
    """One line for each solver and objective, over all rates: attacked images if all were flagged, and how many are."""
    x, title, drawn = powers(-5, 0), "learning rate", []
    chosen = {
        "all flagged": ("Attacked, if all were flagged", "attacked"),
        "flagged": ("Attacked and flagged", "detected"),
    }
    for key, (what, theirs) in chosen.items():
        read = partial(_under_attack, reading, key)
        made = [_line(setting, SETTINGS[setting], rows, read) for setting, rows in by.items()]
        paper = published.LEARNING_RATE if (classifier, reading) == (PAPERS, READINGS[0]) else {}
        drawn.append(_chart(f"{what}: {classifier}", x, title, made, _grey(paper, {theirs: what.lower()}), reading))
    return side_by_side(*drawn)


def _under_attack(reading: str, key: str, row: Row) -> str:
    return str(row[SURROGATE][reading][key])


def _grey(paper: published.Curve, known: dict[str, str]) -> list[Line]:
    """The paper's points."""
    made = []
    for key, label in known.items():
        if key in paper:
            marks = [Mark(f"paper/{key}/{at}", at, y, f"the paper, {label}: {100 * y:.1f} %") for at, y in paper[key]]
            made.append(Line(f"the paper, {label}", GREY, paper[key], marks))
    return made


def _chart(caption: str, x: Scale, title: str, made: list[Line], grey: list[Line], reading: str) -> str:
    legend = [(line.name, line.colour) for line in made] + ([("the paper", GREY)] if grey else [])
    drawing = lines(Axes(x, shares(), title, "share of images"), caption, [*grey, *made])
    return chart(caption, drawing, legend, f"PGD-20 on f(D(E)), {reading} reading.")


def _line(label: str, colour: str, rows: dict[Any, Row], read: Read) -> Line:
    marks = []
    for at, row in sorted(rows.items()):
        value = share(read(row))
        marks.append(
            Mark(f"{label}/{at}", float(at), value.value, f"{label}, {at:g}: {percent(value)}", value.interval)
        )
    return Line(label, colour, [(mark.x, mark.y) for mark in marks], marks)


def _inverse(digits: str) -> str:
    return digits.translate(str.maketrans("01", "10"))


def _tables(name: str, rows: dict[str, Row]) -> list[Shown]:
    header = [
        "",
        "clean",
        "false alarms",
        "PGD-20 on f",
        "PGD-20 on f(D(E))",
        "the same, if all were flagged",
        "flagged",
    ]
    made: list[Shown] = []
    for reading in READINGS:
        shown = []
        for at, row in rows.items():
            clean, on_f, through = (row[kind][reading] for kind in ("clean", "pgd-20 on f", SURROGATE))
            chosen = (clean["alu"], clean["flagged"], on_f["alu"])
            chosen += tuple(through[key] for key in ("alu", "all flagged", "flagged"))
            shown.append([at, *(percent(share(digits)) for digits in chosen)])
        made.append(Table(f"{name}, {reading} reading: percent of images", header, shown, folded=True))
    return made
