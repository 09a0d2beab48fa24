"""The detector's part of the page: scores, ROC, detection at fixed false-alarm rates, false alarms, precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape

from alu.evaluation import metrics
from alu.evaluation.result import AttackRecord, Result
from alu.report.axes import Axes, log_shares, shares
from alu.report.charts import Group, Line, Mark, chart, histogram, lines
from alu.report.figures import COLOURS, FEWEST, NONE, TOO_FEW, WIDEST, count, figure, known, percent, share
from alu.report.page import table
from alu.report.tables import coloured, levels
from alu.stats import Share

RATES = (0.001, 0.005, 0.01, 0.05)
PREVALENCE = 1e-4
MANY_CLASSES = 20
DASHES = {"surrogate": "7 3", "adaptive": "2 3"}


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
    parts.append(f'<div class="charts"><div>{roc}</div>{_by_class(key, result)}</div>')
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
        if len(values) >= FEWEST:
            groups.append(Group(f"attacked, {level}", COLOURS[level], values))
    legend = [(f"{group.name} ({len(group.values)})", group.colour) for group in groups]
    threshold = result.detection.get("detector", {}).get("threshold")
    note = (
        "All attacks of a level together, where they were given enough images; an image counts once for each attack "
        "that was given it."
    )
    return chart("Suspicion scores", histogram(groups, threshold), legend, note)


def _roc(key: str, result: Result, negative: list[float], scored: list[tuple[int, AttackRecord]]) -> str:
    low = min(0.1, max(0.001, 1 / (len(negative) + 1)))
    axes = Axes(log_shares(low), shares(), "clean images flagged (logarithmic)", "attacked images flagged")
    alarms = metrics.flagged(result.clean)
    drawn, legend = [], []
    for index, record in one_per_level(result, scored, _missed):
        flagged = metrics.flagged(record.judged)
        marks = []
        if flagged is not None and alarms is not None:
            says = f"{record.name}: {flagged.count} of {flagged.n} flagged"
            marks.append(Mark(f"{key}/roc/{index}", alarms.value, flagged.value, says))
        points = metrics.roc(negative, metrics.scores(record.judged))
        colour = COLOURS.get(record.knowledge, "#667")
        drawn.append(Line(record.name, colour, points, marks, stepped=True, dashes=DASHES.get(record.knowledge, "")))
        legend.append((f"{record.knowledge}: {record.name}", colour))
    note = (
        f"For each attacker the attack that the deployed threshold flags least, if it was given at least {FEWEST} "
        "images; the table has all of them. Dots are where the detector works now."
    )
    return chart("Detection against false alarms (ROC)", lines(axes, "ROC", drawn, named="mark"), legend, note)


def _missed(record: AttackRecord) -> float:
    return -Share(sum(record.judged.flagged), len(record.judged.flagged)).value


def one_per_level(
    result: Result, scored: list[tuple[int, AttackRecord]], worth: Callable[[AttackRecord], float]
) -> list[tuple[int, AttackRecord]]:
    """For each attacker the attack of most worth among those that were given enough images."""
    enough = [pair for pair in scored if len(pair[1].judged.images) >= FEWEST]
    by_level = [[pair for pair in enough if pair[1].knowledge == level] for level in levels(result)]
    return [max(pairs, key=lambda pair: worth(pair[1])) for pairs in by_level if pairs]


def _at_rates(key: str, result: Result, negative: list[float], scored: list[tuple[int, AttackRecord]]) -> str:
    alarms = metrics.flagged(result.clean)
    rates = [rate for rate in RATES if metrics.detected_at(negative, negative, rate) is not None]
    rows = []
    for index, record in scored:
        at, found = f"{key}/detected/{index}", metrics.flagged(record.judged)
        positive = metrics.scores(record.judged)
        cells = [known(f"{at}/{rate}", metrics.detected_at(negative, positive, rate)) for rate in rates]
        name = f"<strong>{escape(record.name)}</strong><small>{coloured(record.knowledge)}</small>"
        precise = _precision(f"{at}/precision", found, alarms) if found and alarms else NONE
        rows.append([name, known(f"{at}/now", found), *cells, precise])
    header = [
        "attack",
        "as deployed",
        *(f"{100 * rate:g} %" for rate in rates),
        "precision<small>1 in 10,000 attacked</small>",
    ]
    groups = [("", 1), ("attacked images flagged, at this rate of false alarms", 1 + len(rates)), ("", 1)]
    short = [rate for rate in RATES if rate not in rates]
    needs = ", ".join(f"{100 * rate:g} % needs {math.ceil(1 / rate) - 1}" for rate in short)
    least = f" Too few clean images for smaller rates: {needs}, and there are {len(negative)}." if short else ""
    return (
        "<h3>Detection at fixed false-alarm rates</h3>"
        + table(header, rows, groups, dense=True)
        + '<p class="soft">Thresholds for the fixed rates come from the clean images judged here. Precision: the share '
        "of alarms that are attacks, at the deployed threshold, if one image in 10,000 is attacked; its range follows "
        f"from both intervals. “n too small”: fewer than {FEWEST} images, or a range of more than 50 points.{least}</p>"
    )


def _precision(key: str, found: Share, alarms: Share) -> str:
    low = metrics.precision(found.interval[0], alarms.interval[1], PREVALENCE)
    high = metrics.precision(found.interval[1], alarms.interval[0], PREVALENCE)
    if high - low > WIDEST:
        return TOO_FEW
    ends = f"[{figure(f'{key}.low', low, f'{100 * low:.2f}')}, {figure(f'{key}.high', high, f'{100 * high:.2f}')}]"
    if alarms.count == 0:
        # Nothing was flagged among so few clean images: the point would be 100 %, and worthless.
        return f"{ends} %"
    value = metrics.precision(found.value, alarms.value, PREVALENCE)
    return f"{figure(key, value, f'{100 * value:.2f} %')}<small>{ends}</small>"


def _by_class(key: str, result: Result) -> str:
    """Alarms on clean images of each class."""
    there = [
        (index, name, found)
        for index, (name, found) in enumerate(zip(result.classes, metrics.per_class(result), strict=True))
        if found is not None
    ]
    ranked = sorted((row for row in there if row[2].n >= FEWEST), key=lambda row: -row[2].value)
    rows = [[escape(name), share(f"{key}/class/{index}", found)] for index, name, found in ranked[:MANY_CLASSES]]
    words = ["Clean images, most alarms first."] if rows else []
    if len(ranked) > MANY_CLASSES:
        words.append(f"The {MANY_CLASSES} classes with most of them are shown.")
    if len(ranked) < len(there):
        words.append(
            f"{len(there) - len(ranked)} of {len(there)} classes have fewer than {FEWEST} images: n too small."
        )
    shown = table(["class", "flagged"], rows, dense=True) if rows else ""
    return f'<div><h3>False alarms by class</h3><p class="soft">{" ".join(words)}</p>{shown}</div>'
