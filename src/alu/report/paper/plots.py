"""Figures in the paper's axes, its own points in grey beside ours: scores, learning rate, iterations, convergence."""

from __future__ import annotations

from typing import Any

from alu.evaluation.intervals import Share
from alu.evaluation.resampling import Estimate, mean
from alu.report.axes import Axes, Scale, linear, shares
from alu.report.charts import Group, Line, Mark, chart, histogram, lines
from alu.report.paper import published
from alu.report.paper.results import Results, share
from alu.report.paper.shape import Chart, Shown, Table, percent, side_by_side

GREY = "#a9b0bb"
CLEAN, ATTACKED, THROUGH, HARD, HARDER, TRAIN = "#2b5fab", "#b3362d", "#6b4ea3", "#c98a1b", "#0f7c8a", "#1a7f4b"
KINDS = {
    "train": ("training images", TRAIN), "clean": ("test images", CLEAN), "pgd-20 on f": ("PGD-20 on f", ATTACKED),
    "pgd-20 on f(D(E))": ("PGD-20 on f(D(E))", THROUGH), "autoattack on f": ("AutoAttack on f", HARD),
    "autoattack on f(D(E))": ("AutoAttack on f(D(E))", HARDER),
}  # fmt: skip
READINGS = ("input", "reconstruction")


def scores(results: Results) -> list[Shown]:
    """One histogram for each reading, and how much is flagged by each threshold."""
    made: list[Shown] = []
    rows = []
    cells = results.cells("histogram")
    for reading in READINGS:
        groups = [Group(name, colour, cells[kind][reading]) for kind, (name, colour) in KINDS.items() if kind in cells]
        marks = {}
        for source, kind in (("train", "train"), ("held out", "calibration")):
            if kind in cells:
                marks[source] = results.threshold(reading, source)
        if not groups:
            continue
        paper = ("the paper's threshold, from training images:", marks["train"]) if "train" in marks else None
        drawing = histogram(groups, marks.get("held out"), other=paper)
        legend = [(group.name, group.colour) for group in groups]
        made.append(Chart(chart(f"Score sum |Δ|, {reading} reading", drawing, legend)))
        for kind, (name, _) in KINDS.items():
            if kind in cells:
                flagged = [
                    percent(_above(cells[kind][reading], marks[source])) if source in marks else "–"
                    for source in ("train", "held out")
                ]
                rows.append([f"{name}, {reading}", *flagged])
    header = ["images, reading", "above the paper's threshold, percent", "above the held-out threshold, percent"]
    return [*made, Table("Flagged images", header, rows)] if rows else [_nothing("Scores")]


def _above(values: list[float], threshold: float) -> Share:
    return Share(sum(value > threshold for value in values), len(values))


def iterations(results: Results) -> list[Shown]:
    """Accuracy and detection against N, for each start."""
    made: list[Shown] = []
    for start, found in results.cells("iterations").items():
        counts = [int(count) for count in found["clean"]]
        axis = _squeezed(max(counts))
        rows = {count: _at(found, str(count)) for count in counts}
        for reading in reversed(READINGS):
            made += _sweep(f"{start} start", rows, axis, "latent steps N", reading, published.ITERATIONS)
        made += _sweep_tables(f"{start} start, {found['solver']}", "N", {str(c): _at(found, str(c)) for c in counts})
    return made or [_nothing("Iterations")]


def learning_rate(results: Results) -> list[Shown]:
    """Accuracy and detection against the rate, for each solver and objective."""
    by: dict[str, dict[float, Any]] = {}
    for key, found in results.cells("learning-rate").items():
        solver, objective, rate = key.split(", ")
        (count,) = found["clean"]
        by.setdefault(f"{solver}, {objective}", {})[float(rate)] = _at(found, count)
    made: list[Shown] = []
    for name, rows in by.items():
        low, high = min(*rows, 1e-5), max(*rows, 1.0)
        ticks = tuple((10.0**power, f"1e{power}") for power in range(-5, 1))
        for reading in reversed(READINGS):
            wide = Scale(low, high, ticks, log=True)
            made += _sweep(name, rows, wide, "learning rate", reading, published.LEARNING_RATE)
        narrow = {rate: row for rate, row in rows.items() if rate <= 0.01}
        axis = Scale(0.0, 0.01, tuple((tick / 1000, f"{tick}") for tick in (0, 2, 4, 6, 8, 10)))
        paper = published.LEARNING_RATE
        made += _sweep(f"{name}, the paper's axis", narrow, axis, "learning rate (E-03)", "reconstruction", paper)
        made += _sweep_tables(name, "learning rate", {f"{rate:g}": row for rate, row in rows.items()})
    return made or [_nothing("Learning rate")]


def _at(found: dict[str, Any], count: str) -> dict[str, Any]:
    """By kind of image, what one setting gave."""
    return {kind: found[kind][count] for kind in ("clean", "pgd-20 on f", "pgd-20 on f(D(E))")}


def _squeezed(most: int) -> Scale:
    ticks = tuple((float(tick), str(tick)) for tick in (0, 20, 50, 100, 200, 500, 1000) if tick <= most)
    return Scale(0.0, float(most), ticks)


def _sweep(
    name: str,
    rows: dict[Any, dict[str, Any]],
    x: Scale,
    title: str,
    reading: str,
    paper: dict[str, tuple[tuple[float, float], ...]],
) -> list[Shown]:
    """Two charts: accuracy if no clean image and every attacked one were flagged, as in the paper's figures, with the
    deployed one beside it; and detection. The paper's figures fit the reconstruction reading: its points are there."""
    through = "pgd-20 on f(D(E))"
    paper = paper if reading == "reconstruction" else {}
    series = {
        "clean, if none were flagged": (TRAIN, lambda row: row["clean"]["purified"]),
        "clean, deployed": (CLEAN, lambda row: row["clean"][reading]["alu"]),
        "attacked, if all were flagged": (ATTACKED, lambda row: row[through][reading]["all flagged"]),
        "attacked, deployed": (THROUGH, lambda row: row[through][reading]["alu"]),
    }
    found = {
        "attacked images flagged": (ATTACKED, lambda row: row[through][reading]["flagged"]),
        "clean images not flagged": (CLEAN, lambda row: _inverse(row["clean"][reading]["flagged"])),
    }
    accuracy = {
        "the paper, clean, if none were flagged": "clean",
        "the paper, attacked, if all were flagged": "attacked",
    }
    detection = {"the paper, attacked images flagged": "detected", "the paper, clean not flagged": "clean not flagged"}
    drawn = []
    for what, chosen, theirs in (("Accuracy", series, accuracy), ("Detection", found, detection)):
        axes = Axes(x, shares(), title, "share of images")
        made = [_line(label, colour, rows, read) for label, (colour, read) in chosen.items()]
        grey = [Line(label, GREY, paper[key], [Mark(f"paper/{key}/{at}", at, y, f"{label}: {100 * y:.1f} %")
                for at, y in paper[key]]) for label, key in theirs.items() if key in paper]  # fmt: skip
        legend = [(line.name, line.colour) for line in made] + ([("the paper", GREY)] if grey else [])
        caption = f"{what} against the {title}: {name}"
        note = f"PGD-20 on f(D(E)), {reading} reading."
        drawn.append(chart(caption, lines(axes, caption, [*grey, *made]), legend, note))
    return [side_by_side(*drawn)]


def _line(label: str, colour: str, rows: dict[Any, dict[str, Any]], read: Any) -> Line:
    marks = []
    for at, row in sorted(rows.items()):
        value = share(read(row))
        marks.append(
            Mark(f"{label}/{at}", float(at), value.value, f"{label}, {at:g}: {percent(value)}", value.interval)
        )
    return Line(label, colour, [(mark.x, mark.y) for mark in marks], marks)


def _inverse(digits: str) -> str:
    return digits.translate(str.maketrans("01", "10"))


def _sweep_tables(name: str, first: str, rows: dict[str, dict[str, Any]]) -> list[Shown]:
    header = [
        first,
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
            clean, on_f, through = (row[kind][reading] for kind in ("clean", "pgd-20 on f", "pgd-20 on f(D(E))"))
            chosen = (clean["alu"], clean["flagged"], on_f["alu"])
            chosen += tuple(through[key] for key in ("alu", "all flagged", "flagged"))
            shown.append([at, *(percent(share(digits)) for digits in chosen)])
        made.append(Table(f"{name}, {reading} reading: percent of images", header, shown))
    return made


def convergence(results: Results) -> list[Shown]:
    """Distances and cosine by N: a chart for each kind of attack, one for the cosines, and all of it as tables."""
    drawn: list[str] = []
    tables: list[Shown] = []
    cosines: list[Line] = []
    for (kind, found), colour in zip(results.cells("convergence").items(), (CLEAN, ATTACKED), strict=False):
        rows = [
            (int(count), {name: mean(values) for name, values in row.items()}) for count, row in found["by N"].items()
        ]
        itself = mean(found["attack itself"])
        drawn.append(_distances(kind, rows, itself))
        cosines.append(_means(f"cosine, {kind}", colour, rows, "cosine"))
        keys = ("to clean", "to attacked", "cosine")
        shown = [[str(at), *(row[key].shown(".4f") for key in keys)] for at, row in rows]
        header = ["N", "to clean, mean", "to attacked, mean", "cosine of estimated and true logit change, mean"]
        title = f"{kind}: n={found['n']}, attacked to clean {itself.shown('.4f')}"
        tables.append(Table(title, header, shown))
    if not drawn:
        return [_nothing("Convergence")]
    last = cosines[0].points[-1][0]
    axes = Axes(_squeezed(int(last)), linear(-1.0, 1.0), "latent steps N", "cosine")
    caption = "Estimated against true logit change"
    legend = [(line.name, line.colour) for line in cosines]
    drawn.append(chart(caption, lines(axes, caption, cosines), legend, "1: the estimate points the right way."))
    return [side_by_side(*drawn), *tables]


def _distances(kind: str, rows: list[tuple[int, dict[str, Estimate]]], itself: Estimate) -> str:
    chosen = (("to clean", CLEAN), ("to attacked", ATTACKED))
    most = max(row[key].interval[1] for _, row in rows for key, _ in chosen)
    axes = Axes(_squeezed(rows[-1][0]), linear(0, max(most, itself.value) * 1.1), "latent steps N", "root mean square")
    drawn = [_means(f"{kind}: {key} image", colour, rows, key) for key, colour in chosen]
    drawn.append(Line("attacked to clean", GREY, [(rows[0][0], itself.value), (rows[-1][0], itself.value)]))
    legend = [(line.name.removeprefix(f"{kind}: "), line.colour) for line in drawn]
    caption = f"Distance of the purified image, {kind}"
    return chart(caption, lines(axes, caption, drawn), legend)


def _means(name: str, colour: str, rows: list[tuple[int, dict[str, Estimate]]], key: str) -> Line:
    marks = [
        Mark(f"{name}/{at}", at, row[key].value, f"{name}, N = {at}: {row[key].shown('.4f')}", row[key].interval)
        for at, row in rows
    ]
    return Line(name, colour, [(mark.x, mark.y) for mark in marks], marks)


def _nothing(title: str) -> Table:
    return Table(title, ["", ""], [["", "not measured yet"]])
