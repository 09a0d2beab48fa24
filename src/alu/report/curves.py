"""Curves of the page: accuracy against eps and steps, logit changes, coverage against risk."""

from __future__ import annotations

from html import escape
from typing import Any

from alu.evaluation import metrics
from alu.evaluation.intervals import Share
from alu.evaluation.printed import eps_text
from alu.evaluation.result import Judged, Result
from alu.report.axes import Axes, linear, ordinal, shares
from alu.report.charts import Line, Mark, accuracy_axes, chart, cloud, lines
from alu.report.figures import COLOURS, count, percent
from alu.report.tables import levels

CURVE_COLOURS = ("#b3362d", "#2b5fab", "#c98a1b", "#6b4ea3", "#1a7f4b", "#667")
MOST_POINTS = 400
MOST_THRESHOLDS = 80
ENOUGH = 10
"""Answers below which a share of wrong ones is noise and not drawn."""


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
    every = sorted(value for judged in groups.values() for value in (*judged.rise_true, *judged.rise_other))
    if not every:
        return []
    # A few huge changes would squeeze the rest; they lie on the frame.
    low, high = every[int(0.005 * len(every))], every[int(0.995 * (len(every) - 1))]
    scale = linear(min(low, 0.0), max(high, 0.0) or 1.0)
    axes = Axes(scale, scale, "highest Δ of another class", "Δ of the true class", width=420, height=360)
    return [
        f'<h2 id="{key}-changes">What purification does to the logits</h2>',
        "<p>Δ is the logit after purification minus the logit before it. Above the dashed diagonal the true class "
        "rises most, and ALU, once the image is flagged, names it; below it ALU names another class.</p>",
        '<div class="charts">',
        *(_change(f"{key}/changes/{name}", name, judged, axes) for name, judged in groups.items() if judged.rise_true),
        "</div>",
    ]


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
    for index, record in scored:
        at = f"{key}/risk/{index}"
        drawn.append(_risk(at, result, record.name, record.judged, record.knowledge, thresholds, coverage, now))
    accepted = metrics.kept_and_wrong(result.labels, result.clean, [now])[0][0] if now is not None else None
    axes = Axes(shares(), shares(), "clean images answered (coverage)", "wrong among answered (risk)")
    seen = {record.knowledge for _, record in scored}
    legend = [(name, COLOURS[name]) for name in ("clean", *levels(result)) if name == "clean" or name in seen]
    figure = chart(
        "Coverage against risk",
        lines(axes, "coverage against risk", drawn, None if accepted is None else accepted.value),
        legend,
        f"One line for each attack, where at least {ENOUGH} images are answered. The dashed line and the dots are the "
        "deployed threshold.",
    )
    rule = escape(str(result.subject.get("rule", "")))
    other = f" (the rule judged here is “{rule}”)" if rule and rule != "abstain" else ""
    return [
        f'<h2 id="{key}-abstain">If it did not answer flagged images</h2>',
        f"<p>Rule “abstain”{other} answers only images whose score is at most a threshold, by the purified logits. "
        "Moving the threshold trades clean images answered for wrong answers among those it does answer. Attacks "
        "that know the threshold aimed at the deployed one; at another they would aim anew, so that curves far from "
        "the dashed line flatter the defence.</p>",
        f'<div class="charts">{figure}</div>',
    ]


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
        (at, risk.value) for at, (_, risk) in zip(coverage, risks, strict=True) if risk is not None and risk.n >= ENOUGH
    ]
    marks = []
    if now is not None:
        accepted = metrics.kept_and_wrong(result.labels, result.clean, [now])[0][0]
        risk = metrics.kept_and_wrong(result.labels, judged, [now])[0][1]
        if risk is not None and risk.n >= ENOUGH:
            marks.append(Mark(key, accepted.value, risk.value, f"{name}: {risk.count} of {risk.n} answers wrong"))
    return Line(name, COLOURS.get(colour, "#667"), points, marks)
