"""What was found, in plain sentences that follow from the outcomes."""

from __future__ import annotations

from html import escape

from alu.evaluation import metrics
from alu.evaluation.result import AttackRecord, Result
from alu.report.detection import share_text
from alu.report.figures import count, inline, percent

ENOUGH = 20


def found(key: str, result: Result) -> str:
    """The findings as a list."""
    key = f"{key}/found"
    said = [
        *_incomplete(result),
        *_accuracy(key, result),
        *_most(key, result),
        *_paper(key, result),
        *_detector(key, result),
        *_checked(key, result),
    ]
    return '<ul class="found">' + "".join(f"<li>{sentence}</li>" for sentence in said) + "</ul>"


def _incomplete(result: Result) -> list[str]:
    said = []
    if result.unmet:
        reasons = escape("; ".join(result.unmet))
        said.append(f"<strong>This evaluation is incomplete</strong>: {reasons}. The figures may be too high.")
    if result.shard[1] > 1:
        said.append("<strong>This is one shard</strong> of a larger evaluation; <code>alu merge</code> joins them.")
    return said


def _accuracy(key: str, result: Result) -> list[str]:
    rejected = metrics.rejected_clean(result)
    more = f"; {percent(f'{key}/rejected', rejected)} are rejected" if rejected.count else ""
    clean, n = inline(f"{key}/clean", metrics.clean(result)), count(f"{key}/n", len(result.labels))
    said = [f"Without an attack, {clean} of {n} images are answered rightly{more}."]
    ran = _ran(result)
    if ran:
        robust, resisted = metrics.robust(result), metrics.resisted(result)
        tried = count(f"{key}/attacks", sum(not record.failed for record in result.attacks)) + " attacks"
        idle = sum(not record.failed and not record.judged.images for record in result.attacks)
        if idle:
            tried += f" ({count(f'{key}/idle', idle)} of them had no image left to break)"
        said.append(
            f"Under the worst of {tried}, {inline(f'{key}/robust', robust)} still "
            "are (robust accuracy, standard protocol)."
        )
        if resisted.count != robust.count:
            said.append(
                f"Right or rejected under every attack: {inline(f'{key}/resisted', resisted)}. Rejecting is only worth "
                f"something if clean images are answered; of those {percent(f'{key}/turned', rejected)} are rejected."
            )
    return said


def _most(key: str, result: Result) -> list[str]:
    """The attack that did most, with the images it was given: later attacks only see what earlier ones left."""
    ran = _ran(result)
    if not ran:
        return []
    best = max(ran, key=lambda record: metrics.broken(result, record))
    broken = metrics.broken(result, best)
    if not broken:
        return ["No attack made the defence answer a single image wrongly."]
    given = "all images" if best.whole else "the images that earlier attacks had left standing"
    return [
        f"The attack with most wrong answers is <strong>{escape(best.name)}</strong> ({escape(best.knowledge)}): "
        f"{count(f'{key}/most/broken', broken)} of {count(f'{key}/most/images', len(best.judged.images))}. It was "
        f"given {given}."
    ]


def _paper(key: str, result: Result) -> list[str]:
    """The paper's way to count, named as such."""
    shares = [(record, found) for record in _ran(result) if (found := metrics.paper(result, record)) is not None]
    if not shares:
        return []
    low, high = min(shares, key=lambda pair: pair[1].value), max(shares, key=lambda pair: pair[1].value)
    said = "Counted as the paper counts (paper protocol: attacked images, whatever was answered clean), "
    if len(shares) == 1:
        return [f"{said}{inline(f'{key}/paper/low', low[1])} are right under {escape(low[0].name)}."]
    said += (
        f"right answers range from {inline(f'{key}/paper/low', low[1])} under {escape(low[0].name)} to "
        f"{inline(f'{key}/paper/high', high[1])} under {escape(high[0].name)}."
    )
    if high[1].value > metrics.clean(result).value and result.subject.get("rule") == "alu":
        said += (
            " The latter is more than on clean images: such an attack shows the rule which label it moved away from."
        )
    return [said]


def _detector(key: str, result: Result) -> list[str]:
    alarms = metrics.flagged(result.clean)
    scored = [record for record in _ran(result) if metrics.scores(record.judged)]
    if alarms is None or not scored or not metrics.scores(result.clean):
        return []
    rates = [(record, flagged) for record in scored if (flagged := metrics.flagged(record.judged)) is not None]
    # A handful of leftovers says nothing about an attack.
    rates = [pair for pair in rates if pair[1].n >= ENOUGH] or rates
    least, most = min(rates, key=lambda pair: pair[1].value), max(rates, key=lambda pair: pair[1].value)
    said = f"The detector flags {share_text(f'{key}/alarms', alarms)} clean images, "
    if len(rates) == 1:
        return [f"{said}and {share_text(f'{key}/flagged/most', most[1])} images of {escape(most[0].name)}."]
    return [
        f"{said}{share_text(f'{key}/flagged/most', most[1])} images of {escape(most[0].name)} and "
        f"{share_text(f'{key}/flagged/least', least[1])} images of {escape(least[0].name)}."
    ]


def _checked(key: str, result: Result) -> list[str]:
    if not result.diagnostics:
        return ["No diagnostic was run."]
    failed = [item.id for item in result.diagnostics if item.verdict == "failed"]
    passed = sum(item.verdict == "passed" for item in result.diagnostics)
    said = (
        f"{count(f'{key}/passed', passed)} of {count(f'{key}/diagnostics', len(result.diagnostics))} diagnostics passed"
    )
    if failed:
        return [f"{said}; <strong>failed: {escape(', '.join(failed))}</strong>. The figures may be too high."]
    return [f"{said}, and none failed."]


def _ran(result: Result) -> list[AttackRecord]:
    return [record for record in result.attacks if record.judged.images]
