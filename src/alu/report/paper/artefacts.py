"""E1 to E5, what explains the paper's effect: each a figure, and all of them as a table."""

from __future__ import annotations

from typing import Any

from alu.evaluation.intervals import Share
from alu.report.charts import chart
from alu.report.dots import Dot, dots
from alu.report.paper.results import Results, share, where
from alu.report.paper.shape import Chart, Shown, Table, percent

CLEAN, ATTACKED, OTHER = "#2b5fab", "#b3362d", "#8a93a3"
Rows = list[tuple[str, Share, str]]


def artefacts(results: Results) -> list[Shown]:
    """Figures that have been measured, then the figures' numbers."""
    found = {
        "E1: what was right clean, and what was not": _first(results),
        "E2: the attack is told the next class instead of the true one": _swapped(results),
        "E3: the label decoded from the perturbation alone": _decoded(results),
        "E4: other purifiers in the VAE's place": _controls(results),
        "E5: only attacks that succeeded": _successful(results),
    }
    drawn = [
        chart(title, dots(title, [Dot(name, value, colour) for name, value, colour in rows]))
        for title, rows in found.items()
        if rows
    ]
    rows = [
        [f"{title.partition(':')[0]} {name}", percent(value)]
        for title, kept in found.items()
        for name, value, _ in kept
    ]
    listed = Table("E1 to E5: PGD-20 on f, input reading (paper protocol)", ["", "percent"],
                   rows or [["", "not measured yet"]], folded=bool(drawn))  # fmt: skip
    return [*map(Chart, drawn), listed]


def _split(results: Results) -> dict[str, str]:
    """The answers' digits that E1 and E5 read; nothing where they have not been measured."""
    found = results.found("artefacts", "E1 and E5")
    if not found:
        return {}
    clean, attacked = found["clean"], found["attacked"]
    bare = {"bare clean": clean["bare"], "bare attacked": attacked["bare"]}
    return {"clean": _alu(clean), "attacked": _alu(attacked), **bare}


def _first(results: Results) -> Rows:
    split = _split(results)
    if not split:
        return []
    answer, bare = split["attacked"], split["bare clean"]
    return _shares(
        ("clean images, ALU right", split["clean"], CLEAN),
        ("attacked images, ALU right", answer, ATTACKED),
        ("attacked, f was right clean", where(answer, bare), ATTACKED),
        ("attacked, f was wrong clean", where(answer, bare, "0"), ATTACKED),
    )


def _swapped(results: Results) -> Rows:
    found = results.found("artefacts", "E2")
    if not found:
        return []
    return _shares(
        ("ALU answers the next class", found["answer is the swapped label"], ATTACKED),
        ("ALU answers the true class", found["answer is the true label"], CLEAN),
        ("the next class, ranked last five clean", unlikely(found), ATTACKED),
    )


def unlikely(found: dict[str, Any]) -> str:
    """Digits of E2's answers where the swapped label was among the last five of the clean logits; none where the ranks
    were not kept, as in results of the experiment's first version."""
    last = "".join(str(int(int(rank) >= 5)) for rank in found.get("rank", ""))
    return where(found["answer is the swapped label"], last) if last else ""


def _decoded(results: Results) -> Rows:
    found = results.found("artefacts", "E3")
    if not found:
        return []
    return _shares(
        (f"linear probe, fitted on {found['fitted on']} others", found["linear probe"], ATTACKED),
        ("f, shown the negative on grey", found["classifier on the negative"], ATTACKED),
    )


def _controls(results: Results) -> Rows:
    rows: Rows = []
    for key, found in results.cells("artefacts").items():
        if key.startswith("E4/"):
            name, attacked = key.removeprefix("E4/"), found["attacked"]
            rows += _shares(
                (f"{name}: clean, ALU", _alu(found["clean"]), CLEAN),
                (f"{name}: attacked, ALU", _alu(attacked), ATTACKED),
                (f"{name}: attacked, purified only", attacked["purified"], OTHER),
            )
    return rows


def _successful(results: Results) -> Rows:
    split = _split(results)
    if not split:
        return []
    before, after = split["bare clean"], split["bare attacked"]
    won = "".join("1" if (one, other) == ("1", "0") else "0" for one, other in zip(before, after, strict=True))
    return _shares(
        ("all attacked images, ALU right", split["attacked"], OTHER),
        ("attacks on f that succeeded, ALU right", where(split["attacked"], won), ATTACKED),
    )


def _alu(found: dict[str, Any]) -> str:
    return str(found["input"]["alu"])


def _shares(*rows: tuple[str, str, str]) -> Rows:
    """Digits as shares; where no image is of the kind there is nothing to show."""
    return [(name, share(digits), colour) for name, digits, colour in rows if digits]
