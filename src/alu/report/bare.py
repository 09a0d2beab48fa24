"""The bare classifier's part of the page: the verdict that comes first, and the classifier under its own attacks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from html import escape

from alu.evaluation import metrics
from alu.evaluation.result import AttackRecord, Result
from alu.evaluation.verdicts import Verdict, bare_share, sentence, sentences, verdicts
from alu.report.figures import NONE, count, figure, inline, number, share
from alu.report.page import table


def verdict_box(key: str, result: Result) -> str:
    """What the defence changes, a sentence for each attacker; nothing for a bare model."""
    rows = _rows(key, result)
    return f'<ul class="verdict" id="{key}-verdict">{"".join(rows)}</ul>' if rows else ""


def first_verdicts(results: Sequence[Result]) -> str:
    """Of several results the verdict on the attacker who knows most, each with the number of its result."""
    rows = [_rows(f"compare/{index}", result, f"{index + 1}. ")[:1] for index, result in enumerate(results)]
    return f'<ul class="verdict several">{"".join(row for some in rows for row in some)}</ul>' if any(rows) else ""


def _rows(key: str, result: Result, before: str = "") -> list[str]:
    found = sentences(result, partial(_sentence, key))
    kinds = [verdict.verdict for verdict in verdicts(result)]
    kinds = ["unclear"] * (len(found) - len(kinds)) + kinds
    return [f'<li class="{kind}">{before}{words}</li>' for kind, words in zip(kinds, found, strict=True)]


def _sentence(key: str, verdict: Verdict) -> str:
    def shown(name: str, value: float, text: str) -> str:
        return figure(f"{key}/verdict/{verdict.level}/{name}", value, text)

    return sentence(verdict, shown)


def bare_section(key: str, result: Result) -> list[str]:
    """The classifier alone, under its own attacks."""
    if result.bare is None:
        return []
    bare, key = result.bare, f"{key}/bare"
    found, at_most = bare_share(result)
    missing = f" Incomplete: {escape('; '.join(bare.unmet))}." if bare.unmet else ""
    header = ["attack", "images", "answered wrongly", "standard protocol<small>right clean and attacked</small>"]
    header += ["seconds", "passes per image<small>forward</small><small>backward</small>"]
    rows = [_row(f"{key}/attack/{at}", bare, record) for at, record in enumerate(bare.attacks) if not _idle(record)]
    if idle := [escape(record.name) for record in bare.attacks if _idle(record)]:
        rows.append([f"<strong>{', '.join(idle)}</strong>", "No image was left standing when their turn came."])
    return [
        f'<h2 id="{key.replace("/", "-")}">The classifier alone, under its own attacks</h2>',
        f"<p>{escape(bare.subject['name'])} without the defence, on the same images. It keeps "
        f"{'at most ' if at_most else ''}{inline(f'{key}/kept', found)} of {count(f'{key}/n', found.n)} images"
        f" under these attacks and under those of the table above that do not know the defence.{missing}</p>",
        table(header, rows, dense=True),
    ]


def _idle(record: AttackRecord) -> bool:
    return not record.judged.images and not record.failed


def _row(key: str, bare: Result, record: AttackRecord) -> list[str]:
    name = f"<strong>{escape(record.name)}</strong><small>{escape(record.about)}</small>"
    n = len(record.judged.images)
    if not n:
        return [name, f"Could not run: {escape(record.failed)}"]
    return [
        name,
        count(f"{key}/images", n),
        count(f"{key}/broken", metrics.broken(bare, record)),
        share(f"{key}/alone", metrics.alone(bare, record), n=False) if record.whole else NONE,
        number(f"{key}/seconds", record.seconds),
        number(f"{key}/forwards", record.forwards / n)
        + f"<small>{number(f'{key}/backwards', record.backwards / n)}</small>",
    ]
