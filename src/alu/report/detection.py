"""The detector's part of the page: scores, ROC, detection at fixed false-alarm rates, false alarms, precision."""

from __future__ import annotations

import math
from html import escape

from alu.evaluation import metrics
from alu.evaluation.intervals import Share
from alu.evaluation.result import AttackRecord, Result
from alu.report.axes import Axes, log_shares, shares
from alu.report.charts import Group, Line, Mark, chart, histogram, lines
from alu.report.figures import COLOURS, NONE, count, figure, percent, share
from alu.report.page import table
from alu.report.tables import coloured, levels

RATES = (0.001, 0.005, 0.01, 0.05)
PREVALENCE = 1e-4
MANY_CLASSES = 20


def detection(key: str, result: Result) -> list[str]:
    """Everything about the detector; nothing where there is none."""
    scored = [(index, record) for index, record in enumerate(result.attacks) if metrics.scores(record.judged)]
    negative = metrics.scores(result.clean)
    if not negative:
        return []
    parts = [f'<h2 id="{key}-detector">The detector</h2>', _facts(key, result)]
    if scored:
        parts.append(_histogram(result, negative, scored))
    roc = _roc(key, result, negative, scored) if scored else ""
    parts.append(f'<div class="charts"><div>{roc}{_harmless(key, result)}</div>{_by_class(key, result)}</div>')
    return parts + ([_at_rates(key, result, negative, scored)] if scored else [])


def _facts(key: str, result: Result) -> str:
    facts = result.detection.get("detector", {})
    alarms = metrics.flagged(result.clean)
    words = []
    if facts:
        rate, images = facts["false_alarm"], facts["calibration_images"]
        words.append(
            f"{escape(str(facts['name']))} was calibrated to flag at most "
            f"{figure(f'{key}/detector/false_alarm', rate, f'{100 * rate:g} %')} of clean images, on "
            f"{count(f'{key}/detector/images', images)} clean images that are not among those judged here."
        )
    if alarms is not None:
        words.append(f"Of the clean images judged here it flags {share_text(f'{key}/detector/alarms', alarms)}.")
    return f"<p>{' '.join(words)}</p>"


def share_text(key: str, found: Share) -> str:
    """Count of n, and percent."""
    return f"{count(f'{key}.count', found.count)} of {count(f'{key}.n', found.n)} ({percent(key, found)})"


def _histogram(result: Result, negative: list[float], scored: list[tuple[int, AttackRecord]]) -> str:
    groups = [Group("clean", COLOURS["clean"], negative)]
    for level in levels(result):
        values = [value for _, record in scored if record.knowledge == level for value in metrics.scores(record.judged)]
        if values:
            groups.append(Group(f"attacked, {level}", COLOURS[level], values))
    legend = [(f"{group.name} ({len(group.values)})", group.colour) for group in groups]
    threshold = result.detection.get("detector", {}).get("threshold")
    note = "All attacks of a level together; an image counts once for each attack that was given it."
    return chart("Suspicion scores", histogram(groups, threshold), legend, note)


def _roc(key: str, result: Result, negative: list[float], scored: list[tuple[int, AttackRecord]]) -> str:
    low = min(0.1, max(0.001, 1 / (len(negative) + 1)))
    axes = Axes(log_shares(low), shares(), "clean images flagged (logarithmic)", "attacked images flagged")
    alarms = metrics.flagged(result.clean)
    drawn = []
    for index, record in scored:
        flagged = metrics.flagged(record.judged)
        marks = []
        if flagged is not None and alarms is not None:
            says = f"{record.name}: {flagged.count} of {flagged.n} flagged"
            marks.append(Mark(f"{key}/roc/{index}", alarms.value, flagged.value, says))
        points = metrics.roc(negative, metrics.scores(record.judged))
        drawn.append(Line(record.name, COLOURS.get(record.knowledge, "#667"), points, marks, stepped=True))
    seen = {record.knowledge for _, record in scored}
    legend = [(level, COLOURS[level]) for level in levels(result) if level in seen]
    note = "One line for each attack; dots are where the detector works now."
    return chart("Detection against false alarms (ROC)", lines(axes, "ROC", drawn), legend, note)


def _at_rates(key: str, result: Result, negative: list[float], scored: list[tuple[int, AttackRecord]]) -> str:
    alarms = metrics.flagged(result.clean)
    rows = []
    for index, record in scored:
        at, found = f"{key}/detected/{index}", metrics.flagged(record.judged)
        positive = metrics.scores(record.judged)
        cells = [share(f"{at}/{rate}", metrics.detected_at(negative, positive, rate)) for rate in RATES]
        name = f"<strong>{escape(record.name)}</strong><small>{coloured(record.knowledge)}</small>"
        precise = _precision(f"{at}/precision", found, alarms) if found and alarms else NONE
        rows.append([name, share(f"{at}/now", found), *cells, precise])
    header = [
        "attack",
        "as deployed",
        *(f"{100 * rate:g} %" for rate in RATES),
        "precision<small>1 in 10,000 attacked</small>",
    ]
    groups = [("", 1), ("attacked images flagged, at this rate of false alarms", 1 + len(RATES)), ("", 1)]
    short = [rate for rate in RATES if metrics.detected_at(negative, negative, rate) is None]
    needs = ", ".join(f"{100 * rate:g} % needs {math.ceil(1 / rate) - 1}" for rate in short)
    least = f" Too few clean images for some rates: {needs}, and there are {len(negative)}." if short else ""
    return (
        "<h3>Detection at fixed false-alarm rates</h3>"
        + table(header, rows, groups, dense=True)
        + '<p class="soft">Thresholds for the fixed rates come from the clean images judged here. Precision: the share '
        "of alarms that are attacks, at the deployed threshold, if one image in 10,000 is attacked; its range follows "
        f"from both intervals.{least}</p>"
    )


def _precision(key: str, found: Share, alarms: Share) -> str:
    low = metrics.precision(found.interval[0], alarms.interval[1], PREVALENCE)
    high = metrics.precision(found.interval[1], alarms.interval[0], PREVALENCE)
    ends = f"[{figure(f'{key}.low', low, f'{100 * low:.2f}')}, {figure(f'{key}.high', high, f'{100 * high:.2f}')}]"
    if alarms.count == 0:
        # Nothing was flagged among so few clean images: the point would be 100 %, and worthless.
        return f"{ends} %"
    value = metrics.precision(found.value, alarms.value, PREVALENCE)
    return f"{figure(key, value, f'{100 * value:.2f} %')}<small>{ends}</small>"


def _by_class(key: str, result: Result) -> str:
    """Alarms on clean images of each class."""
    ranked = sorted(
        (
            (index, name, found)
            for index, (name, found) in enumerate(zip(result.classes, metrics.per_class(result), strict=True))
            if found is not None
        ),
        key=lambda row: -row[2].value,
    )
    rows = [[escape(name), share(f"{key}/class/{index}", found)] for index, name, found in ranked[:MANY_CLASSES]]
    more = f" The {MANY_CLASSES} classes with most of them are shown." if len(ranked) > MANY_CLASSES else ""
    return (
        f'<div><h3>False alarms by class</h3><p class="soft">Clean images, most alarms first.{more}</p>'
        + table(["class", "flagged"], rows, dense=True)
        + "</div>"
    )


def _harmless(key: str, result: Result) -> str:
    """Alarms on clean images that were changed as pictures often are."""
    rows = [
        [
            escape(str(row["change"])),
            share(f"{key}/harmless/{index}/flagged", Share(row["flagged"], row["n"])),
            share(f"{key}/harmless/{index}/right", Share(row["right"], row["n"])),
        ]
        for index, row in enumerate(result.detection.get("harmless") or [])
    ]
    return "<h3>False alarms on harmless changes</h3>" + table(["change", "flagged", "right"], rows) if rows else ""
