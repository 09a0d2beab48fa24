"""The page's section on refusing: the defence beside its base and beside confidence, and how easily it is silenced."""

from __future__ import annotations

from typing import Any

from alu.evaluation import metrics
from alu.evaluation.result import Result
from alu.evaluation.verdicts import bare_share, eps_text
from alu.report.axes import Axes, ordinal, shares
from alu.report.charts import COLOURS, Chart, Line, Mark, lines
from alu.report.page import Cell, Part, Row, Table, count, share_cell
from alu.stats import Share


def refusal(key: str, result: Result) -> dict[str, Any] | None:
    """RAR, coverage and accuracy on what is answered, and the denial curve; nothing where nothing is refused."""
    if result.subject.get("rule") != "abstain":
        return None
    return {"table": table(key, result), "chart": denial(key, result), "rival": result.rival is not None}


def table(key: str, result: Result) -> Table:
    """The base that answers everything, refusal by confidence, and the defence."""
    rows = []
    if result.bare is not None:
        kept, at_most = bare_share(result)
        rar = share_cell(f"{key}/base/rar", kept, at_most=at_most)
        rows.append(Row("the classifier, always answering", [*_answered(f"{key}/base", result.bare), rar]))
    for at, name, one in (("rival", "refusal by confidence", result.rival), ("own", "this defence", result)):
        if one is not None:
            rar = share_cell(f"{key}/{at}/rar", metrics.robust_or_refused(one))
            rows.append(Row(name, [*_answered(f"{key}/{at}", one), rar], strong=at == "own"))
    columns = [
        "", "answered\nclean images (coverage)", "correct among answered\nclean images",
        "correct and answered\nclean images", "RAR\ncorrect clean, never wrong under attack",
    ]  # fmt: skip
    return Table(columns, rows)


def _answered(key: str, result: Result) -> list[Cell]:
    """Coverage, accuracy on what is answered, and clean accuracy."""
    given = {
        "coverage": metrics.coverage(result), "answered": metrics.right_when_answered(result),
        "clean": metrics.clean(result),
    }  # fmt: skip
    return [share_cell(f"{key}/{name}", share) for name, share in given.items()]


def denial(key: str, result: Result) -> Chart | None:
    """Images that are never silenced, against the radius; None where that was not measured."""
    curve = metrics.denial(result)
    if not curve:
        return None
    norm = result.threat["norm"]
    labels, x_title = [eps_text(eps, norm) for eps, _ in curve], "within this distance (not to scale)"
    if all(label.endswith("/255") for label in labels):
        labels, x_title = [label.removesuffix("/255") for label in labels], "within this distance, in 1/255"
    marks = [_mark(f"{key}/denial/{place}", place, share, labels[place]) for place, (_, share) in enumerate(curve)]
    line = Line("never silenced", COLOURS["adaptive"], [(mark.x, mark.y) for mark in marks], marks)
    drawing = lines(Axes(ordinal(labels), shares(), x_title, "never silenced"), "Never silenced", [line])
    note: list[Part] = [
        count(f"{key}/denial/n", curve[0][1].n),
        " images. Who is silenced at a distance is so at a larger one.",
    ]
    return Chart("Never silenced", drawing, [], note)


def _mark(key: str, place: int, share: Share, label: str) -> Mark:
    return Mark(key, place, share.value, f"{label}: {share.count} of {share.n} never silenced", share.interval)
