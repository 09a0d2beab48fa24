"""Curves of the page: accuracy against eps and steps, logit changes, coverage against risk."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from html import escape
from typing import Any

from alu.evaluation import metrics
from alu.evaluation.printed import eps_text
from alu.evaluation.result import AttackRecord, Judged, Result
from alu.report.axes import Axes, Scale, linear, ordinal
from alu.report.charts import Line, Mark, accuracy_axes, chart, cloud, lines
from alu.report.detection import DASHES, one_per_level
from alu.report.figures import COLOURS, FEWEST, count, percent
from alu.report.tables import levels
from alu.stats import Share

CURVE_COLOURS = ("#b3362d", "#2b5fab", "#c98a1b", "#6b4ea3", "#1a7f4b", "#667")
MOST_POINTS = 400
MOST_THRESHOLDS = 80


def strength(key: str, result: Result) -> list[str]:
    """Right answers against eps and against steps, each point an attack of its own."""
    drawn = [
        _counted(f"{key}/curve/{name}", result.curves[name], name, title, x_title, result.threat["norm"])
        for name, title, x_title in (
            ("eps", "Right answers against eps", "eps (not to scale)"),
            ("steps", "Right answers against steps", "steps of the attack (not to scale)"),
        )
        if result.curves.get(name)
    ]
    if not drawn:
        return []
    return [
        f'<h2 id="{key}-strength">Stronger attacks</h2>',
        "<p>Each point is an attack of its own on the same few images, whatever was answered clean; bars are 95 % "
        "intervals. A sound attack leaves fewer right answers as eps and steps grow. Where the curve rises, the attack "
        "is at fault, not the defence good.</p>",
        '<div class="charts">' + "".join(drawn) + "</div>",
    ]


def _counted(key: str, rows: list[dict[str, Any]], name: str, title: str, x_title: str, norm: str) -> str:
    values = sorted({row[name] for row in rows})
    labels = [eps_text(value, norm) if name == "eps" else str(value) for value in values]
    if name == "eps" and all(label.endswith("/255") for label in labels):
        labels, x_title = [label.removesuffix("/255") for label in labels], "eps in 1/255 (not to scale)"
    drawn = []
    for index, attack in enumerate(dict.fromkeys(str(row.get("attack", "attack")) for row in rows)):
        marks = []
        for place, row in enumerate(rows):
            if str(row.get("attack", "attack")) == attack:
                found = Share(row["right"], row["n"])
                says = f"{attack}, {name} {row[name]:.4g}: {row['right']} of {row['n']} right"
                marks.append(Mark(f"{key}/{place}", values.index(row[name]), found.value, says, found.interval))
        points = sorted((mark.x, mark.y) for mark in marks)
        drawn.append(Line(attack, CURVE_COLOURS[index % len(CURVE_COLOURS)], points, marks))
    n = max(int(row["n"]) for row in rows)
    legend = [(line.name, line.colour) for line in drawn]
    note = f"{count(f'{key}/n', n)} images for each point."
    return chart(title, lines(accuracy_axes(ordinal(labels), x_title), title, drawn), legend, note)


def changes(key: str, result: Result) -> list[str]:
    """Δ of the true class against the highest Δ of another: ALU names whichever is larger."""
    groups = {"clean": _pooled([result.clean])} | {
        level: _pooled([record.judged for record in result.attacks if record.knowledge == level])
        for level in levels(result)
    }
    every = [judged for judged in groups.values() if judged.rise_true]
    if not every:
        return []
    across = _reach([value for judged in every for value in judged.rise_other])
    up = _reach([value for judged in every for value in judged.rise_true])
    axes = Axes(across, up, "highest Δ of another class", "Δ of the true class", width=420, height=360)
    return [
        f'<h2 id="{key}-changes">What purification does to the logits</h2>',
        "<p>Δ is the logit after purification minus the logit before it. Above the dashed diagonal the true class "
        "rises most, and ALU, once the image is flagged, names it; below it ALU names another class.</p>",
        '<div class="charts">',
        *(_change(f"{key}/changes/{name}", name, judged, axes) for name, judged in groups.items() if judged.rise_true),
        "</div>",
    ]


def _reach(values: list[float]) -> Scale:
    """From the least to the greatest value with room for whole points; a few far ones do not squeeze the rest."""
    ranked = sorted(values)
    low, high = ranked[0], ranked[-1]
    first, last = ranked[int(0.01 * len(ranked))], ranked[int(0.99 * (len(ranked) - 1))]
    if high - low > 2 * (last - first) > 0:
        low, high = max(low, first - (last - first) / 4), min(high, last + (last - first) / 4)
    room = 0.05 * ((high - low) or 1.0)
    return linear(low - room, high + room)


def _pooled(parts: list[Judged]) -> Judged:
    """The logit changes of several attacks together."""
    return Judged(
        rise_true=[value for part in parts for value in part.rise_true],
        rise_other=[value for part in parts for value in part.rise_other],
    )


def _change(key: str, name: str, judged: Judged, axes: Axes) -> str:
    found = metrics.rose_most(judged)
    assert found is not None
    note = (
        f"The true class rises most for {count(f'{key}.count', found.count)} of {count(f'{key}.n', found.n)} "
        f"({percent(key, found)})."
    )
    pairs = list(zip(judged.rise_other, judged.rise_true, strict=True))
    beyond = sum(not (axes.x.low <= x <= axes.x.high and axes.y.low <= y <= axes.y.high) for x, y in pairs)
    if beyond:
        note += f" {count(f'{key}.beyond', beyond)} lie beyond the frame: rings on its edge."
    shown = pairs[:: -(-len(pairs) // MOST_POINTS)]
    if len(shown) < len(pairs):
        note += f" {count(f'{key}.shown', len(shown))} of them are drawn."
    title = "Clean images" if name == "clean" else f"Attacked images, {name}"
    return chart(title, cloud(axes, title, shown, COLOURS[name]), note=note)


def abstaining(key: str, result: Result) -> list[str]:
    """Coverage against risk: what rule "abstain" would do at every threshold."""
    scored = [
        (index, record)
        for index, record in enumerate(result.attacks)
        if metrics.scores(record.judged) and record.judged.purified
    ]
    if not metrics.scores(result.clean) or not result.clean.purified:
        return []
    thresholds = _spread(sorted(set(metrics.scores(result.clean))))
    coverage = [kept.value for kept, _ in metrics.kept_and_wrong(result.labels, result.clean, thresholds)]
    now = result.detection.get("detector", {}).get("threshold")
    drawn = [_risk(f"{key}/risk/clean", result, "clean", result.clean, "clean", thresholds, coverage, now)]
    legend = [("clean", COLOURS["clean"])]
    for index, record in one_per_level(result, scored, partial(_wrong, result, now)):
        at = f"{key}/risk/{index}"
        line = _risk(at, result, record.name, record.judged, record.knowledge, thresholds, coverage, now)
        if line.points:
            drawn.append(line)
            legend.append((f"{record.knowledge}: {record.name}", line.colour))
    accepted = metrics.kept_and_wrong(result.labels, result.clean, [now])[0][0] if now is not None else None
    figure = chart(
        "Coverage against risk",
        lines(_risk_axes(drawn), "coverage against risk", drawn, accepted.value if accepted else None, named="end"),
        legend,
        f"For each attacker the attack with most wrong answers, where at least {FEWEST} images are answered. The "
        "dashed line and the dots are the deployed threshold.",
    )
    rule = escape(str(result.subject.get("rule", "")))
    other = f" (the rule judged here is “{rule}”)" if rule and rule != "abstain" else ""
    return [
        f'<h2 id="{key}-abstain">If it did not answer flagged images</h2>',
        f"<p>Rule “abstain”{other} answers only images whose score is at most a threshold, by the purified logits. "
        "Moving the threshold trades clean images answered for wrong answers among those it does answer. Attacks "
        "that know the threshold aimed at the deployed one; at another they would aim anew, so that curves far from "
        "the dashed line flatter the defence.</p>",
        figure,
    ]


def _wrong(result: Result, now: float | None, record: AttackRecord) -> float:
    """Wrong answers among those that an attack's images get, at the deployed threshold; without one, all of them."""
    risk = metrics.kept_and_wrong(result.labels, record.judged, [math.inf if now is None else now])[0][1]
    return -1.0 if risk is None or risk.n < FEWEST else risk.value


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


def _risk(
    key: str,
    result: Result,
    name: str,
    judged: Judged,
    colour: str,
    thresholds: list[float],
    coverage: list[float],
    now: float | None,
) -> Line:
    risks = metrics.kept_and_wrong(result.labels, judged, thresholds)
    points = [
        (at, risk.value) for at, (_, risk) in zip(coverage, risks, strict=True) if risk is not None and risk.n >= FEWEST
    ]
    marks = []
    if now is not None:
        accepted = metrics.kept_and_wrong(result.labels, result.clean, [now])[0][0]
        risk = metrics.kept_and_wrong(result.labels, judged, [now])[0][1]
        if risk is not None and risk.n >= FEWEST:
            marks.append(Mark(key, accepted.value, risk.value, f"{name}: {risk.count} of {risk.n} answers wrong"))
    return Line(name, COLOURS.get(colour, "#667"), points, marks, dashes=DASHES.get(colour, ""))
