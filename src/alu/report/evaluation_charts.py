"""The charts of the evaluation's page: the detector, stronger attacks, logit changes, coverage against risk."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from alu import stats
from alu.evaluation import metrics
from alu.evaluation.result import Answers, AttackRecord, Result
from alu.evaluation.verdicts import eps_text
from alu.report.axes import Axes, Scale, linear, log_shares, ordinal, shares
from alu.report.charts import COLOURS, OTHER, Chart, Group, Line, Mark, cloud, histogram, lines
from alu.report.evaluation_tables import levels
from alu.report.page import (
    FEWEST,
    NONE,
    TOO_FEW,
    WIDEST,
    Cell,
    Figure,
    Part,
    Row,
    Table,
    count,
    enough_cell,
    share,
    share_cell,
)
from alu.stats import Share

RATES = (0.001, 0.005, 0.01, 0.05)
PREVALENCE = 1e-4
MANY_CLASSES = 20
DASHES = {"surrogate": "7 3", "adaptive": "2 3"}
CURVE_COLOURS = (*(COLOURS[level] for level in ("adaptive", "clean", "oblivious", "surrogate")), "var(--good)", OTHER)
MOST_POINTS = 400
MOST_THRESHOLDS = 80

Numbered = tuple[int, AttackRecord]
"""An attack and its place in the result."""


def scored_attacks(result: Result) -> list[Numbered]:
    """Attacks whose images have suspicion scores."""
    return [(index, record) for index, record in enumerate(result.attacks) if metrics.scores(record.answers)]


def one_per_level(
    result: Result, attacks: Sequence[Numbered], strength: Callable[[AttackRecord], float]
) -> list[Numbered]:
    """For each attacker the strongest attack among those that had enough images."""
    enough = [pair for pair in attacks if len(pair[1].answers.images) >= FEWEST]
    by_level = [[pair for pair in enough if pair[1].knowledge == level] for level in levels(result)]
    return [max(pairs, key=lambda pair: strength(pair[1])) for pairs in by_level if pairs]


def scores_chart(result: Result) -> Chart:
    """The histogram of suspicion scores: clean, and all attacks of a level together."""
    groups = [Group("clean", COLOURS["clean"], metrics.scores(result.clean))]
    for level in levels(result):
        records = [record for record in result.attacks if record.knowledge == level]
        values = [value for record in records for value in metrics.scores(record.answers)]
        if len(values) >= FEWEST:
            groups.append(Group(f"attacked, {level}", COLOURS[level], values))
    legend = [(f"{group.name} ({len(group.values)})", group.colour) for group in groups]
    note = "All attacks of a level together, where they had enough images; an image counts once for each attack on it."
    threshold = result.detection.get("detector", {}).get("threshold")
    return Chart("Suspicion scores", histogram(groups, threshold), legend, [note])


def roc_chart(key: str, result: Result) -> Chart:
    """Detection against false alarms, for each attacker the attack that is flagged least."""

    def missed(record: AttackRecord) -> float:
        flags = record.answers.flagged
        return 1 - sum(flags) / len(flags)

    negative, alarms = metrics.scores(result.clean), metrics.flagged(result.clean)
    low = min(0.1, max(0.001, 1 / (len(negative) + 1)))
    axes = Axes(log_shares(low), shares(), "clean images flagged (logarithmic)", "attacked images flagged")
    drawn, legend = [], []
    for index, record in one_per_level(result, scored_attacks(result), missed):
        flagged = metrics.flagged(record.answers)
        marks = []
        if flagged is not None and alarms is not None:
            words = f"{record.name}: {flagged.count} of {flagged.n} flagged"
            marks.append(Mark(f"{key}/roc/{index}", alarms.value, flagged.value, words))
        points = stats.roc(negative, metrics.scores(record.answers))
        colour = COLOURS.get(record.knowledge, OTHER)
        drawn.append(Line(record.name, colour, points, marks, stepped=True, dashes=DASHES.get(record.knowledge, "")))
        legend.append((f"{record.knowledge}: {record.name}", colour))
    note = (
        f"For each attacker the attack that the deployed threshold flags least, if it had at least {FEWEST} images; "
        "the table has all attacks. Dots are the deployed threshold."
    )
    return Chart("Detection against false alarms (ROC)", lines(axes, "ROC", drawn, named="mark"), legend, [note])


def detection_table(key: str, result: Result) -> Table:
    """Attacked images that are flagged: as deployed, and at fixed false-alarm rates."""
    negative, alarms = metrics.scores(result.clean), metrics.flagged(result.clean)
    rates = fixed_rates(negative)
    rows = []
    for index, record in scored_attacks(result):
        at, flagged = f"{key}/detected/{index}", metrics.flagged(record.answers)
        positive = metrics.scores(record.answers)
        fixed = [enough_cell(f"{at}/{rate}", metrics.detected_at(negative, positive, rate)) for rate in rates]
        precision = _precision(f"{at}/precision", flagged, alarms) if flagged and alarms else NONE
        cells = [enough_cell(f"{at}/now", flagged), *fixed, precision]
        rows.append(Row(record.name, cells, knowledge=record.knowledge, strong=True))
    fixed_titles = [f"{100 * rate:g} %" for rate in rates]
    columns = ["attack", "as deployed", *fixed_titles, "precision\n1 in 10,000 attacked"]
    groups = [("", 1), ("attacked images flagged, at this rate of false alarms", 1 + len(rates)), ("", 1)]
    return Table(columns, rows, groups, dense=True, levels=levels(result))


def fixed_rates(negative: Sequence[float]) -> list[float]:
    """The false-alarm rates that these clean scores are enough for."""
    return [rate for rate in RATES if metrics.detected_at(negative, negative, rate) is not None]


def images_needed(negative: Sequence[float]) -> list[str]:
    """The other rates, each with the number of clean images it needs."""
    short = [rate for rate in RATES if rate not in fixed_rates(negative)]
    return [f"{100 * rate:g} % needs {math.ceil(1 / rate) - 1}" for rate in short]


def _precision(key: str, flagged: Share, alarms: Share) -> Cell:
    low = metrics.precision(flagged.interval[0], alarms.interval[1], PREVALENCE)
    high = metrics.precision(flagged.interval[1], alarms.interval[0], PREVALENCE)
    if high - low > WIDEST:
        return TOO_FEW
    ends = Figure(f"{key}.low", low, f"{100 * low:.2f}"), Figure(f"{key}.high", high, f"{100 * high:.2f}")
    interval: list[Part] = ["[", ends[0], ", ", ends[1], "]"]
    if alarms.count == 0:
        # No clean image was flagged: the estimate would be 100 %, and worthless.
        return Cell([*interval, " %"])
    value = metrics.precision(flagged.value, alarms.value, PREVALENCE)
    return Cell([Figure(key, value, f"{100 * value:.2f} %")], [interval])


def alarms_by_class(key: str, result: Result) -> dict[str, Any]:
    """Alarms on clean images of each class, most of them first; classes with too few images are only counted."""
    shares_by_class = enumerate(zip(result.classes, metrics.per_class(result), strict=True))
    there = [(index, name, alarms) for index, (name, alarms) in shares_by_class if alarms is not None]
    ranked = sorted((row for row in there if row[2].n >= FEWEST), key=lambda row: -row[2].value)
    shown = ranked[:MANY_CLASSES]
    rows = [Row(name, [share_cell(f"{key}/class/{index}", alarms)]) for index, name, alarms in shown]
    return {
        "table": Table(["class", "flagged"], rows, dense=True) if rows else None,
        "shown": len(shown),
        "hidden": len(ranked) - len(shown),
        "too_small": len(there) - len(ranked),
        "classes": len(there),
    }


def strength(key: str, result: Result) -> list[Chart]:
    """Correct answers against eps and against steps, each point an attack of its own."""
    curves = {
        "eps": ("Correct answers against eps", "eps (not to scale)"),
        "steps": ("Correct answers against steps", "steps of the attack (not to scale)"),
    }
    return [
        _curve(f"{key}/curve/{name}", result.curves[name], name, title, x_title, result.threat["norm"])
        for name, (title, x_title) in curves.items()
        if result.curves.get(name)
    ]


def _curve(key: str, rows: list[dict[str, Any]], name: str, title: str, x_title: str, norm: str) -> Chart:
    values = sorted({row[name] for row in rows})
    labels = [eps_text(value, norm) if name == "eps" else str(value) for value in values]
    if name == "eps" and all(label.endswith("/255") for label in labels):
        labels, x_title = [label.removesuffix("/255") for label in labels], "eps in 1/255 (not to scale)"
    drawn = []
    for index, attack in enumerate(dict.fromkeys(str(row.get("attack", "attack")) for row in rows)):
        marks = []
        for place, row in enumerate(rows):
            if str(row.get("attack", "attack")) == attack:
                correct = Share(row["right"], row["n"])
                words = f"{attack}, {name} {row[name]:.4g}: {row['right']} of {row['n']} correct"
                marks.append(Mark(f"{key}/{place}", values.index(row[name]), correct.value, words, correct.interval))
        points = sorted((mark.x, mark.y) for mark in marks)
        drawn.append(Line(attack, CURVE_COLOURS[index % len(CURVE_COLOURS)], points, marks))
    drawing = lines(Axes(ordinal(labels), shares(), x_title, "correct answers"), title, drawn)
    legend = [(line.name, line.colour) for line in drawn]
    return Chart(title, drawing, legend, [count(f"{key}/n", max(int(row["n"]) for row in rows)), " images per point."])


def changes(key: str, result: Result) -> list[Chart]:
    """Δ of the true class against the highest Δ of another: ALU names whichever is larger."""
    groups = {"clean": [result.clean]}
    for level in levels(result):
        groups[level] = [record.answers for record in result.attacks if record.knowledge == level]
    # The highest Δ of another class, and Δ of the true one.
    points = {
        name: [point for answers in some for point in zip(answers.rise_other, answers.rise_true, strict=True)]
        for name, some in groups.items()
    }
    points = {name: some for name, some in points.items() if some}
    if not points:
        return []
    across, up = zip(*(point for some in points.values() for point in some), strict=True)
    titles = "highest Δ of another class", "Δ of the true class"
    axes = Axes(_reach(across), _reach(up), *titles, width=420, height=360)
    return [_change(f"{key}/changes/{name}", name, some, axes) for name, some in points.items()]


def _reach(values: Sequence[float]) -> Scale:
    """From the least to the greatest value with room for whole points; a few far ones do not squeeze the rest."""
    ranked = sorted(values)
    low, high = ranked[0], ranked[-1]
    first, last = ranked[int(0.01 * len(ranked))], ranked[int(0.99 * (len(ranked) - 1))]
    if high - low > 2 * (last - first) > 0:
        low, high = max(low, first - (last - first) / 4), min(high, last + (last - first) / 4)
    room = 0.05 * ((high - low) or 1.0)
    return linear(low - room, high + room)


def _change(key: str, name: str, points: list[tuple[float, float]], axes: Axes) -> Chart:
    rises = share(key, Share(sum(true > other for other, true in points), len(points)))
    assert rises is not None
    note: list[Part] = ["The true class rises most for ", rises.count, " of ", rises.n, " (", rises.percent, ")."]
    beyond = sum(not (axes.x.low <= x <= axes.x.high and axes.y.low <= y <= axes.y.high) for x, y in points)
    if beyond:
        note += [" ", count(f"{key}.beyond", beyond), " lie beyond the frame: rings on its edge."]
    drawn = points[:: -(-len(points) // MOST_POINTS)]
    if len(drawn) < len(points):
        note += [" ", count(f"{key}.shown", len(drawn)), " of them are drawn."]
    title = "Clean images" if name == "clean" else f"Attacked images, {name}"
    return Chart(title, cloud(axes, title, drawn, COLOURS[name]), note=note)


def abstaining(key: str, result: Result) -> Chart | None:
    """Coverage against risk: what rule "abstain" would do at every threshold; None without scores."""
    if not metrics.scores(result.clean) or not result.clean.purified:
        return None
    deployed = result.detection.get("detector", {}).get("threshold")

    def wrong(record: AttackRecord) -> float:
        """Wrong answers at the deployed threshold; without one, among all answers."""
        risk = _risk_at(result, record.answers, math.inf if deployed is None else deployed)
        return -1.0 if risk is None else risk.value

    attacks = [pair for pair in scored_attacks(result) if pair[1].answers.purified]
    drawn = [_risk(f"{key}/risk/clean", result, "clean", result.clean, "clean", deployed)]
    legend = [("clean", COLOURS["clean"])]
    for index, record in one_per_level(result, attacks, wrong):
        line = _risk(f"{key}/risk/{index}", result, record.name, record.answers, record.knowledge, deployed)
        if line.points:
            drawn.append(line)
            legend.append((f"{record.knowledge}: {record.name}", line.colour))
    upright = None if deployed is None else _coverage(result, deployed)
    note = (
        f"For each attacker the attack with most wrong answers, where at least {FEWEST} images are answered. The "
        "dashed line and the dots are the deployed threshold."
    )
    drawing = lines(_risk_axes(drawn), "coverage against risk", drawn, upright, named="end")
    return Chart("Coverage against risk", drawing, legend, [note])


def _coverage(result: Result, threshold: float) -> float:
    """Clean images that are answered at this threshold."""
    return metrics.kept_and_wrong(result.labels, result.clean, [threshold])[0][0].value


def _risk_at(result: Result, answers: Answers, threshold: float) -> Share | None:
    """Wrong answers among those given at this threshold; None if they are too few."""
    risk = metrics.kept_and_wrong(result.labels, answers, [threshold])[0][1]
    return None if risk is None or risk.n < FEWEST else risk


def _risk(key: str, result: Result, name: str, answers: Answers, level: str, deployed: float | None) -> Line:
    """The risk on these images at every threshold that changes the coverage."""
    thresholds = _spread(sorted(set(metrics.scores(result.clean))))
    risks = [(threshold, _risk_at(result, answers, threshold)) for threshold in thresholds]
    points = [(_coverage(result, threshold), risk.value) for threshold, risk in risks if risk is not None]
    marks = []
    if deployed is not None and (risk := _risk_at(result, answers, deployed)) is not None:
        words = f"{name}: {risk.count} of {risk.n} answers wrong"
        marks.append(Mark(key, _coverage(result, deployed), risk.value, words))
    return Line(name, COLOURS.get(level, OTHER), points, marks, dashes=DASHES.get(level, ""))


def _risk_axes(drawn: list[Line]) -> Axes:
    """Axes that end where the lines do, so that small risks can be told apart."""
    points = [point for line in drawn for point in (*line.points, *((mark.x, mark.y) for mark in line.marks))]
    top = min(1.0, max(0.05, 1.15 * max((y for _, y in points), default=1.0)))
    first = math.floor(10 * min((x for x, _ in points), default=0.0)) / 10
    scales = linear(min(first, 0.9), 1.0), linear(0.0, top)
    x, y = (replace(scale, ticks=tuple((at, f"{100 * at:g} %") for at, _ in scale.ticks)) for scale in scales)
    return Axes(x, y, "clean images answered (coverage)", "wrong among answered (risk)", width=720, right=136)


def _spread(values: list[float]) -> list[float]:
    """At most so many of the values, the ends included."""
    if len(values) <= MOST_THRESHOLDS:
        return values
    return [values[round(at * (len(values) - 1) / (MOST_THRESHOLDS - 1))] for at in range(MOST_THRESHOLDS)]
