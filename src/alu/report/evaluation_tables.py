"""The evaluation's tables: summary, every attack, the bare classifier, harmless changes, several results."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from alu.errors import UsageError
from alu.evaluation import metrics
from alu.evaluation.result import AttackRecord, Result
from alu.evaluation.text import eps_text
from alu.evaluation.verdicts import Verdict, bare_share, verdicts
from alu.report.figures import Figure, count, distance, number, percent, share
from alu.report.tables import NONE, Cell, Column, Label, Row, Table, figure_cell, percent_cell, share_cell
from alu.stats import Share

KNOWS = {
    "oblivious": "knows the classifier, not the defence",
    "surrogate": "also the gradient through one pass of the purifier",
    "adaptive": "knows everything: the purifier, its steps, the threshold, the rule",
}
LOSS_MARKED = 0.02
"""A loss of correct answers above this is marked."""
PASSES = Column("passes per image", ["forward", "backward"])
Cells = Callable[[int, AttackRecord], list[Cell]]
"""The number and the record of an attack -> its cells."""
STANDARD = Column("standard protocol", ["correct clean and attacked"])


def levels(result: Result) -> list[str]:
    """The levels of knowledge of which there is an attack."""
    return [name for name in metrics.LEVELS if any(record.knowledge == name for record in result.attacks)]


def summary(key: str, result: Result) -> Table:
    """Clean and robust accuracy, standard protocol, for attackers who know more and more."""
    bare = {verdict.level: verdict for verdict in verdicts(result)}
    columns = [
        Column("attacker"),
        Column("attacks"),
        Column("correct answers", ["clean, then robust accuracy"]),
        *([Column("bare classifier", ["correct answers, same attacker"])] if bare else []),
        Column("resisted", ["correct or rejected"]),
        Column("clean images rejected", ["read with “resisted”"]),
    ]
    rows = [_no_attack(f"{key}/clean", result, bare)]
    rows += [_level(f"{key}/level/{level}", result, level, bare) for level in levels(result)]
    means = metrics.over_draws(result)
    if means is not None:
        clean, robust = percent(f"{key}/draws/clean", means[0]), percent(f"{key}/draws/robust", means[1])
        label = Label("mean over ten draws", ["above, the worst of them counts"])
        both = Cell(["clean ", clean, ", attacked at most ", robust])
        rows.append(Row(label, [NONE, both, *[NONE] * (2 + bool(bare))]))
    return Table(columns, rows)


def _no_attack(key: str, result: Result, bare: dict[str, Verdict]) -> Row:
    values = metrics.outcomes(result.clean, result.labels).values()
    resisted = Share(sum(value != metrics.WRONG for value in values), len(values))
    cells = [
        NONE,
        share_cell(share(key, metrics.clean(result))),
        *_bare_cells(f"{key}/bare", bare, "clean"),
        share_cell(share(f"{key}/resisted", resisted)),
        share_cell(share(f"{key}/rejected", metrics.rejected_clean(result))),
    ]
    return Row(Label("no attack", knowledge="clean"), cells)


def _level(key: str, result: Result, level: str, bare: dict[str, Verdict]) -> Row:
    names = metrics.LEVELS[level]
    ran = sum(record.knowledge in names and not record.failed for record in result.attacks)
    resisted = share(
        f"{key}/resisted",
        metrics.resisted(result, names),
        at_most=metrics.bound_only(result, names, (metrics.CORRECT, metrics.REJECTED)),
    )
    robust = share(f"{key}/robust", metrics.robust(result, names), at_most=metrics.bound_only(result, names))
    cells = [
        figure_cell(count(f"{key}/attacks", ran)),
        share_cell(robust),
        *_bare_cells(f"{key}/bare", bare, level),
        share_cell(resisted),
        percent_cell(share(f"{key}/rejected", metrics.rejected_clean(result))),
    ]
    return Row(Label(level, [KNOWS[level]], knowledge=level), cells)


def _bare_cells(key: str, bare: dict[str, Verdict], level: str) -> list[Cell]:
    """The bare classifier against the same attacker, where the subject is a defence."""
    if not bare:
        return []
    verdict = bare.get(level)
    return [NONE if verdict is None else share_cell(share(key, verdict.bare, at_most=verdict.at_most[1]))]


def attacks(key: str, result: Result) -> Table:
    """Every attack: what it did to the defence and to what the defence is made of, and what it cost."""
    steady = any(record.answers.steady for record in result.attacks)
    columns = [
        Column("attack"),
        Column("images"),
        Column("answered wrongly"),
        Column("paper protocol", ["correct attacked"]),
        STANDARD,
        *([Column("resubmitted", ["mean correct"])] if steady else []),
        Column("flagged"),
        Column("bare classifier"),
        Column("purifier only"),
        Column("blur instead"),
        Column("median distance"),
        Column("seconds"),
        PASSES,
    ]
    groups = [("", 1), ("the defence", 5 + steady), ("correct on the same images", 3), ("cost", 3)]
    rows = _attack_rows(result.attacks, lambda at, record: _attack(f"{key}/attack/{at}", result, record, steady))
    return Table(columns, rows, groups, dense=True, levels=levels(result))


def _attack_rows(records: Sequence[AttackRecord], cells: Cells, knowledge: bool = True) -> list[Row]:
    """A row for each attack that had images, with its remarks; one for all attacks of a level that had none."""
    rows: list[Row] = []
    for index, record in enumerate(records):
        if not record.answers.images and not record.failed:
            continue
        level = record.knowledge if knowledge else ""
        label = Label(record.name, [record.about], level, strong=True)
        if not record.answers.images:
            rows.append(Row(label, remark=f"Could not run: {record.failed}"))
            continue
        rows.append(Row(label, cells(index, record)))
        remarks = ([f"Could not go on: {record.failed}"] if record.failed else []) + record.notes
        rows += [Row(Label("", knowledge=level), remark=remark) for remark in remarks]
    idle: dict[str, list[str]] = {}
    for record in records:
        if not record.answers.images and not record.failed:
            idle.setdefault(record.knowledge if knowledge else "", []).append(record.name)
    why = "Not run: earlier attacks had broken every image."
    return rows + [Row(Label(", ".join(names), [], level, strong=True), remark=why) for level, names in idle.items()]


def _attack(key: str, result: Result, record: AttackRecord, steady: bool) -> list[Cell]:
    judged = record.answers
    detector = bool(result.detection.get("detector")) or any(result.clean.flagged)

    def cell(name: str, given: Share | None) -> Cell:
        return share_cell(share(f"{key}/{name}", given), n=False)

    resubmitted = number(f"{key}/steady", statistics.fmean(judged.steady), 3) if judged.steady else None
    norm = result.threat["norm"]
    median = distance(f"{key}/distance", statistics.median(record.distance), norm) if record.distance else None
    return [
        *_broken(key, result, record),
        cell("paper", metrics.paper(result, record)),
        cell("standard", metrics.robust_under(result, record) if record.whole else None),
        *([figure_cell(resubmitted)] if steady else []),
        cell("flagged", metrics.flagged(judged) if detector else None),
        *(cell(name, metrics.beside(result, judged, name)) for name in ("bare", "purified", "control")),
        figure_cell(median),
        *_cost(key, record),
    ]


def _broken(key: str, result: Result, record: AttackRecord) -> list[Cell]:
    """How many images an attack had, and how many it broke."""
    broken = count(f"{key}/broken", metrics.broken(result, record))
    return [figure_cell(count(f"{key}/images", len(record.answers.images))), figure_cell(broken)]


def _cost(key: str, record: AttackRecord) -> list[Cell]:
    """Seconds, and passes through the classifier per image."""
    n = len(record.answers.images)
    forward, backward = number(f"{key}/forwards", record.forwards / n), number(f"{key}/backwards", record.backwards / n)
    return [figure_cell(number(f"{key}/seconds", record.seconds)), Cell([forward], [[backward]])]


def bare_classifier(key: str, bare: Result) -> Table:
    """The classifier without the defence, under its own attacks."""

    def cells(index: int, record: AttackRecord) -> list[Cell]:
        at = f"{key}/attack/{index}"
        whole = share(f"{at}/standard", metrics.robust_under(bare, record)) if record.whole else None
        return [*_broken(at, bare, record), share_cell(whole, n=False), *_cost(at, record)]

    columns = [Column("attack"), Column("images"), Column("answered wrongly"), STANDARD, Column("seconds"), PASSES]
    return Table(columns, _attack_rows(bare.attacks, cells, knowledge=False), dense=True)


def harmless(key: str, result: Result) -> Table:
    """A row for each harmless change, moderate ones first."""
    rows = list(enumerate(result.detection["harmless"]))
    rejects = any(row.get("rejected") for _, row in rows) or result.subject.get("rule") == "abstain"
    flags = bool(result.detection.get("detector"))
    moderate: list[Row] = []
    strong: list[Row] = []
    for index, row in rows:
        # Results of older versions do not say how strong a change is.
        which = moderate if row.get("moderate", True) else strong
        which.append(_change(f"{key}/{index}", row, flags, rejects))
    heading = Row(Label("Strong changes", strong=True), remark="A person would notice these.", heading=True)
    columns = ["change", "bare classifier", "purifier only", "deployed", "flagged", *(["rejected"] if rejects else [])]
    groups = [("", 1), ("correct answers", 3), ("", 1 + rejects)]
    every = [*moderate, heading, *strong] if strong else moderate
    return Table([Column(title) for title in columns], every, groups, dense=True)


def _change(key: str, row: dict[str, Any], flags: bool, rejects: bool) -> Row:
    def cell(name: str) -> Cell:
        return share_cell(share(f"{key}/{name}", Share(row[name], row["n"])), n=False) if name in row else NONE

    deployed = cell("right")
    lost = (max(row.get("bare", 0), row.get("purified", 0)) - row["right"]) / row["n"]
    if lost > LOSS_MARKED + 1e-9:
        points = Figure(f"{key}/lost", lost, f"{100 * lost:.1f}")
        deployed = replace(deployed, small=[*deployed.small, [points, " points lost"]], kind="marked")
    flagged = cell("flagged") if flags else NONE
    rejected = [cell("rejected")] if rejects else []
    return Row(Label(str(row["change"])), [cell("bare"), cell("purified"), deployed, flagged, *rejected])


def side_by_side(results: Sequence[Result]) -> Table:
    """One row for each result: the figures that decide."""
    columns = [
        Column("result"),
        Column("clean"),
        *map(Column, metrics.LEVELS),
        Column("bare classifier", ["its own attacks"]),
        Column("resisted"),
        Column("clean rejected"),
    ]
    groups = [("", 2), ("robust accuracy, standard protocol", 4), ("", 2)]
    return Table(columns, [_compared(at, result) for at, result in enumerate(results)], groups, dense=True)


def _compared(index: int, result: Result) -> Row:
    key = f"compare/{index}"
    cells = [share_cell(share(f"{key}/clean", metrics.clean(result)), n=False)]
    for level, names in metrics.LEVELS.items():
        robust = metrics.robust(result, names) if level in levels(result) else None
        bound = metrics.bound_only(result, names)
        cells.append(share_cell(share(f"{key}/{level}", robust, at_most=bound), n=False))
    bare, at_most = bare_share(result) if result.bare is not None else (None, False)
    cells += [
        share_cell(share(f"{key}/bare", bare, at_most=at_most), n=False),
        share_cell(share(f"{key}/resisted", metrics.resisted(result)), n=False),
        percent_cell(share(f"{key}/rejected", metrics.rejected_clean(result))),
    ]
    small = [setting(result), *([] if result.complete else ["INCOMPLETE"])]
    return Row(Label(_numbered(index, result), small, link=f"result-{index}"), cells)


def _numbered(index: int, result: Result) -> str:
    return f"{index + 1}. {result.subject['name']}"


def setting(result: Result) -> str:
    """Under what a result was measured."""
    threat = result.threat
    eps = eps_text(threat["eps"], threat["norm"])
    return f"{threat['norm']} eps {eps}, suite {result.suite}, budget {result.budget}, n = {len(result.labels)}"


def _differences(first: Result, second: Result) -> list[str]:
    """Why two results are not about the same attacker."""
    checks = {
        "under different threat models": first.threat != second.threat,
        "by different suites or budgets: the one attacked harder looks worse": (
            (first.suite, first.budget) != (second.suite, second.budget)
        ),
        "not both complete": not (first.complete and second.complete),
    }
    return [reason for reason, differs in checks.items() if differs]


def pairs(results: Sequence[Result]) -> Table:
    """McNemar's test for each pair of results on the same images."""
    columns = ["pair", "kept by the first only", "kept by the second only", "p-value", "at the 5 % level they"]
    rows = [
        _pair(f"mcnemar/{one}/{two}", (_numbered(one, first), first), (_numbered(two, second), second))
        for (one, first), (two, second) in combinations(enumerate(results), 2)
    ]
    return Table([Column(title) for title in columns], rows)


def _pair(key: str, first: tuple[str, Result], second: tuple[str, Result]) -> Row:
    small = [setting(first[1]), f"against {second[0]}", setting(second[1])]
    try:
        only_first, only_second, p_value = metrics.mcnemar(first[1], second[1])
    except UsageError as error:
        return Row(Label(first[0], small), remark=str(error))
    cells = [
        figure_cell(count(f"{key}/first", only_first)),
        figure_cell(count(f"{key}/second", only_second)),
        figure_cell(number(f"{key}/p", p_value, 4)),
        Cell(["differ" if p_value < 0.05 else "may be equally good"]),
    ]
    return Row(Label(first[0], [*small, *_differences(first[1], second[1])]), cells)
