"""Harmless changes on the page: what the defence costs on pictures that nobody attacked."""

from __future__ import annotations

from html import escape
from typing import Any

from alu.evaluation.result import Result
from alu.report.figures import NONE, figure, share
from alu.report.page import table
from alu.stats import Share

MARKED = 0.02
"""A loss of right answers above this is marked."""


def harmless(key: str, result: Result) -> list[str]:
    """A row for each change, moderate ones first; nothing where none was measured."""
    rows = list(enumerate(result.detection.get("harmless") or []))
    if not rows:
        return []
    rejects = any(row.get("rejected") for _, row in rows) or result.subject.get("rule") == "abstain"
    # Results of older versions say nothing of how strong a change is.
    moderate = [(index, row) for index, row in rows if row.get("moderate", True)]
    strong = [(index, row) for index, row in rows if not row.get("moderate", True)]
    flags = bool(result.detection.get("detector"))
    shown = [_row(f"{key}/harmless/{index}", row, flags, rejects) for index, row in moderate]
    if strong:
        shown.append(["<strong>Strong changes</strong>", "A person would notice these."])
        shown += [_row(f"{key}/harmless/{index}", row, flags, rejects) for index, row in strong]
    header = ["change", "bare classifier", "purifier alone", "deployed", "flagged", *(["rejected"] if rejects else [])]
    n = rows[0][1]["n"]
    return [
        f'<h2 id="{key}-harmless">Harmless changes</h2>',
        "<p>What cameras, files and editors do to pictures, without an attack. Right answers of the classifier without "
        "the defence, of the purifier without detector and rule, and of what is deployed, each of "
        f"{figure(f'{key}/harmless/n', n, str(n))} images. Marked: deployed answers that are more than "
        f"{100 * MARKED:g} points below the better of the other two.</p>",
        table(header, shown, [("", 1), ("right answers", 3), ("", 1 + rejects)], dense=True),
    ]


def _row(key: str, row: dict[str, Any], flags: bool, rejects: bool) -> list[str]:
    n = row["n"]

    def cell(name: str) -> str:
        return share(f"{key}/{name}", Share(row[name], n), n=False) if name in row else NONE

    deployed = cell("right")
    best = max(row.get("bare", 0), row.get("purified", 0))
    lost = (best - row["right"]) / n
    if lost > MARKED + 1e-9:
        points = figure(f"{key}/lost", lost, f"{100 * lost:.1f}")
        deployed = f'<span class="marked">{deployed.replace("<small>", f" ({points} points lost)<small>", 1)}</span>'
    return [
        escape(str(row["change"])),
        cell("bare"),
        cell("purified"),
        deployed,
        cell("flagged") if flags else NONE,
        *([cell("rejected")] if rejects else []),
    ]
