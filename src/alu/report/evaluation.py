"""The evaluation's page: what each section shows, as plain values; `templates/evaluation.html.j2` holds the words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from alu.errors import UsageError
from alu.evaluation import metrics
from alu.evaluation.beside import beside_confidence, beside_parts
from alu.evaluation.result import STATUSES, AttackRecord, Result
from alu.evaluation.verdicts import bare_share, sentence_parts, stamps, title, unknown, verdicts
from alu.report import evaluation_charts as charts
from alu.report import evaluation_tables as tables
from alu.report import page
from alu.report.charts import bars
from alu.report.page import FEWEST, Figure, count, number, share
from alu.report.refusal import refusal
from alu.stats import Share

Context = dict[str, Any]
ENOUGH = 20
"""From fewer images the findings conclude nothing about an attack, if another had more."""
PICTURES = ("clean", "perturbation", "adversarial", "purified")
MOST_BARS = 10
OPEN = 2
"""Examples of each attack that are shown at once; the rest are a click away."""


def write(results: list[Result], path: Path | str) -> None:
    """Write the page of these results; it appears whole or not at all."""
    if not results:
        raise UsageError("There is nothing to report. Give at least one result of alu evaluate.")
    for result in results:
        if not result.labels:
            raise UsageError(f"{result.subject['name']}: this result holds no image. Merge it with its other shards.")
    page.write(Path(path), html(results))


def html(results: Sequence[Result]) -> str:
    """The page as text."""
    several = len(results) > 1
    return page.render(
        "evaluation.html.j2",
        title="alu: evaluations side by side" if several else title(results[0]),
        comparison=comparison(results) if several else None,
        chapters=[chapter(index, result, several) for index, result in enumerate(results)],
    )


def comparison(results: Sequence[Result]) -> Context:
    """Several results: the verdict on the attacker who knows most for each, all of them as rows, and every pair."""
    first = [verdict(f"compare/{index}", result)[:1] for index, result in enumerate(results)]
    return {
        "count": len(results),
        "verdict": [{**row, "number": index + 1} for index, rows in enumerate(first) for row in rows],
        "table": tables.side_by_side(results),
        "pairs": tables.pairs(results),
    }


def chapter(index: int, result: Result, numbered: bool) -> Context:
    """All about one result; keys and anchors begin with its number, and among several its title too.

    A section without anything to show is None or empty, and left out.
    """
    key = f"result-{index}"
    return {
        "key": key,
        "title": (f"{index + 1}. " if numbered else "") + title(result),
        "stamps": stamps(result),
        "verdict": verdict(key, result),
        "findings": findings(f"{key}/findings", result),
        "summary": tables.summary(key, result),
        "attacks": tables.attacks(key, result),
        "refusal": refusal(f"{key}/refusal", result),
        "bare": bare(f"{key}/bare", result),
        "harmless": harmless(f"{key}/harmless", result),
        "detector": detector(key, result),
        "strength": charts.strength(key, result),
        "changes": charts.changes(key, result),
        "abstain": abstain(key, result),
        "images": images(key, result),
        "diagnostics": sorted(result.diagnostics, key=lambda item: STATUSES.index(item.status)),
        "origin": origin(result),
    }


def verdict(key: str, result: Result) -> list[Context]:
    """What the defence changes, a sentence for each attacker; nothing for a bare model."""
    rows: list[Context] = [{"kind": "unclear", "parts": [sentence]} for sentence in unknown(result)]
    for one in verdicts(result):
        parts = [
            part if isinstance(part, str) else Figure(f"{key}/verdict/{one.level}/{part[0]}", *part[1:])
            for part in sentence_parts(one)
        ]
        rows.append({"kind": one.verdict, "parts": parts})
    if (beside := beside_confidence(result)) is not None:
        words = beside_parts(beside)
        figures = [part if isinstance(part, str) else Figure(f"{key}/beside/{part[0]}", *part[1:]) for part in words]
        rows.append({"kind": beside.verdict, "parts": figures})
    return rows


def findings(key: str, result: Result) -> Context:
    """What the outcomes come to, for sentences."""
    ran = [record for record in result.attacks if record.answers.images]
    clean, rejected = metrics.clean(result), metrics.rejected_clean(result)
    robust, resisted = metrics.robust(result), metrics.resisted(result)
    idle = sum(not record.failed and not record.answers.images for record in result.attacks)
    paper = [(record.name, given) for record in ran if (given := metrics.paper(result, record)) is not None]
    best = max((given.value for _, given in paper), default=0.0)
    return {
        "unmet": result.unmet,
        "sharded": result.shard[1] > 1,
        "clean": share(f"{key}/clean", clean),
        "n": count(f"{key}/n", len(result.labels)),
        "rejected": share(f"{key}/rejected", rejected) if rejected.count else None,
        "attacks": count(f"{key}/attacks", sum(not record.failed for record in result.attacks)),
        "idle": count(f"{key}/idle", idle) if idle else None,
        "robust": share(f"{key}/robust", robust) if ran else None,
        "resisted": share(f"{key}/resisted", resisted) if ran and resisted.count != robust.count else None,
        "clean_rejected": share(f"{key}/clean_rejected", rejected),
        "strongest": _strongest(f"{key}/most", result, ran),
        "paper": _ends(f"{key}/paper", paper, "low", "high"),
        # A rule that answers with Δ may be better under an attack than without any.
        "beats_clean": len(paper) > 1 and best > clean.value and result.subject.get("rule") in ("alu", "graded"),
        "alarms": share(f"{key}/alarms", metrics.flagged(result.clean)),
        "flagged": _ends(f"{key}/flagged", _flagged(result, ran), "least", "most"),
        "diagnostics": count(f"{key}/diagnostics", len(result.diagnostics)) if result.diagnostics else None,
        "passed": count(f"{key}/passed", sum(item.status == "passed" for item in result.diagnostics)),
        "failed": [item.id for item in result.diagnostics if item.status == "failed"],
    }


def _strongest(key: str, result: Result, ran: list[AttackRecord]) -> Context | None:
    """The attack that broke most, with the images it had: later attacks only see what earlier ones left."""
    if not ran:
        return None
    record = max(ran, key=lambda record: metrics.broken(result, record))
    broken = metrics.broken(result, record)
    return {
        "name": record.name,
        "knowledge": record.knowledge,
        "broken": count(f"{key}/broken", broken) if broken else None,
        "images": count(f"{key}/images", len(record.answers.images)),
        "whole": record.whole,
    }


def _flagged(result: Result, ran: list[AttackRecord]) -> list[tuple[str, Share]]:
    """How often each attack is flagged; nothing without a detector."""
    scored = [record for record in ran if metrics.scores(record.answers)] if metrics.scores(result.clean) else []
    scored = [record for record in scored if len(record.answers.images) >= ENOUGH] or scored
    return [(record.name, given) for record in scored if (given := metrics.flagged(record.answers)) is not None]


def _ends(key: str, rows: list[tuple[str, Share]], low: str, high: str) -> list[Context]:
    """The attacks with the lowest and the highest share, or the only one; none where there is none."""
    if not rows:
        return []
    least, most = (pick(rows, key=lambda row: row[1].value) for pick in (min, max))
    ends = [(low, *least), (high, *most)][: len(rows)]
    return [{"name": name, "share": share(f"{key}/{end}", given)} for end, name, given in ends]


def bare(key: str, result: Result) -> Context | None:
    """The classifier without the defence, under its own attacks."""
    if result.bare is None:
        return None
    kept, at_most = bare_share(result)
    return {
        "name": result.bare.subject["name"],
        "kept": share(f"{key}/kept", kept, at_most=at_most),
        "n": count(f"{key}/n", kept.n),
        "unmet": result.bare.unmet,
        "table": tables.bare_classifier(key, result.bare),
    }


def harmless(key: str, result: Result) -> Context | None:
    """What harmless changes cost."""
    rows = result.detection.get("harmless")
    if not rows:
        return None
    marked = f"{100 * tables.LOSS_MARKED:g}"
    return {"n": count(f"{key}/n", rows[0]["n"]), "marked": marked, "table": tables.harmless(key, result)}


def detector(key: str, result: Result) -> Context | None:
    """Everything about the detector; nothing where there is none."""
    negative = metrics.scores(result.clean)
    if not negative:
        return None
    facts = result.detection.get("detector", {})
    attacked = bool(charts.scored_attacks(result))
    rate = facts.get("false_alarm", 0.0)
    return {
        "name": facts.get("name"),
        "false_alarm": Figure(f"{key}/detector/false_alarm", rate, f"{100 * rate:g} %"),
        "images": count(f"{key}/detector/images", facts.get("calibration_images", 0)),
        "alarms": share(f"{key}/detector/alarms", metrics.flagged(result.clean)),
        "scores": charts.scores_chart(result) if attacked else None,
        "roc": charts.roc_chart(key, result) if attacked else None,
        "by_class": charts.alarms_by_class(key, result),
        "table": charts.detection_table(key, result) if attacked else None,
        "clean_images": len(negative),
        "images_needed": charts.images_needed(negative),
        "fewest": FEWEST,
    }


def abstain(key: str, result: Result) -> Context | None:
    """What not answering flagged images would do, at every threshold."""
    chart = charts.abstaining(key, result)
    rule = str(result.subject.get("rule", ""))
    return None if chart is None else {"chart": chart, "other_rule": "" if rule == "abstain" else rule}


def images(key: str, result: Result) -> list[Context]:
    """Examples, attack by attack: pictures, and logits before and after purification."""
    every = [(row["attack"], _example(f"{key}/example/{at}", row, result)) for at, row in enumerate(result.examples)]
    groups = []
    for attack in dict.fromkeys(attack for attack, _ in every):
        some = [example for name, example in every if name == attack]
        groups.append({"attack": str(attack), "first": some[:OPEN], "more": some[OPEN:]})
    return groups


def _example(key: str, example: dict[str, Any], result: Result) -> Context:
    true, answer = int(example["true"]), int(example["answer"])
    chosen = _chosen(example["before"], example["after"], (true, answer))
    names = {index: result.classes[index] if index < len(result.classes) else str(index) for index in {*chosen, answer}}
    before, after = ([example[which][index] for index in chosen] for which in ("before", "after"))
    return {
        "number": count(f"{key}/number", result.numbers[example["image"]]),
        "true": names[true],
        "answer": names[answer],
        "correct": answer == true,
        "flagged": example["flagged"],
        "score": None if example.get("score") is None else number(f"{key}/score", example["score"]),
        "pictures": [(example[name], name) for name in PICTURES],
        "drawing": bars([names[index] for index in chosen], before, after, chosen.index(true)),
    }


def _chosen(before: Sequence[float], after: Sequence[float], always: tuple[int, ...]) -> list[int]:
    """The classes whose bars are drawn: all if they are few, else those named and those with the highest logits."""
    every = range(len(before))
    if len(before) <= MOST_BARS:
        return list(every)
    ranked = sorted(every, key=lambda index: -max(before[index], after[index]))
    return sorted(list(dict.fromkeys([*always, *ranked]))[:MOST_BARS])


def origin(result: Result) -> dict[str, str]:
    """Commit, versions, processor, seed, data set, subject and threat model."""
    facts: Context = {
        **result.provenance,
        "images": len(result.labels),
        **{f"data set {name}": value for name, value in result.dataset.items()},
        **{f"threat model {name}": value for name, value in result.threat.items()},
        "suite": result.suite,
        "budget": result.budget,
        "seconds attacking": round(sum(record.seconds for record in result.attacks), 1),
    }
    if result.bare is not None:
        seconds = sum(record.seconds for record in result.bare.attacks)
        facts["seconds attacking the bare classifier"] = round(seconds, 1)
    if result.rival is not None:
        seconds = sum(record.seconds for record in result.rival.attacks)
        facts["seconds attacking refusal by confidence"] = round(seconds, 1)
    return {
        name: json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
        for name, value in (facts | result.subject).items()
    }
