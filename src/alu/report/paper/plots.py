"""Figures of the detector's score and of where the purified image goes."""

from __future__ import annotations

from alu.evaluation.intervals import Share
from alu.evaluation.resampling import Estimate, mean
from alu.report.axes import Axes, linear, steps
from alu.report.charts import Group, Line, Mark, chart, histogram, lines
from alu.report.paper.results import Results
from alu.report.paper.shape import Chart, Shown, Table, nothing, percent, side_by_side

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
    return [*made, Table("Flagged images", header, rows)] if rows else [nothing("Scores")]


def _above(values: list[float], threshold: float) -> Share:
    return Share(sum(value > threshold for value in values), len(values))


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
        tables.append(Table(title, header, shown, folded=True))
    if not drawn:
        return [nothing("Convergence")]
    last = cosines[0].points[-1][0]
    axes = Axes(steps(int(last)), linear(-1.0, 1.0), "latent steps N", "cosine")
    caption = "Estimated against true logit change"
    legend = [(line.name, line.colour) for line in cosines]
    drawn.append(chart(caption, lines(axes, caption, cosines), legend, "1: the estimate points the right way."))
    return [side_by_side(*drawn), *tables]


def _distances(kind: str, rows: list[tuple[int, dict[str, Estimate]]], itself: Estimate) -> str:
    chosen = (("to clean", CLEAN), ("to attacked", ATTACKED))
    most = max(row[key].interval[1] for _, row in rows for key, _ in chosen)
    axes = Axes(steps(rows[-1][0]), linear(0, max(most, itself.value) * 1.1), "latent steps N", "root mean square")
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
