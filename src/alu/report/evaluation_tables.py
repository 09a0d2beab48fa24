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
from alu.evaluation.verdicts import Verdict, bare_share, verdicts
from alu.evaluation.verdicts import setting as attacked_how
from alu.report.page import (
    NONE,
    Cell,
    Figure,
    Row,
    Table,
    count,
    distance,
    figure_cell,
    number,
    percent,
    share_cell,
)
from alu.stats import Share

KNOWS = {
    "clean": [],
    "oblivious": ["knows the classifier, not the defence"],
    "surrogate": ["also the gradient through one pass of the purifier"],
    "adaptive": ["knows everything: the purifier, its steps, the threshold, the rule"],
}
LOSS_MARKED = 0.02
"""A loss of correct answers above this is marked."""
PASSES = "passes per image\nforward\nbackward"
STANDARD = "standard protocol\ncorrect clean and attacked"


def levels(result: Result) -> list[str]:
    """The levels of knowledge of which there is an attack."""
    return [name for name in metrics.LEVELS if any(record.knowledge == name for record in result.attacks)]


def rejected_cell(key: str, result: Result) -> Cell:
    """Clean images rejected, without the interval."""
    rejected = metrics.rejected_clean(result)
    return Cell([percent(key, rejected.value)]) if rejected.n else NONE


def summary(key: str, result: Result) -> Table:
    """Clean and robust accuracy, standard protocol, for attackers who know more and more."""
    bare = {verdict.level: verdict for verdict in verdicts(result)}
    columns = [
        "attacker", "attacks", "correct answers\nclean, then robust accuracy",
        *(["bare classifier\ncorrect answers, same attacker"] if bare else []),
        "resisted\ncorrect or rejected", "clean images rejected\nread with “resisted”",
    ]  # fmt: skip
    rows = [_attacker(key, result, level, bare) for level in ("clean", *levels(result))]
    means = metrics.over_draws(result)
    if means is not None:
        clean, robust = percent(f"{key}/draws/clean", means[0]), percent(f"{key}/draws/robust", means[1])
        both = Cell(["clean ", clean, ", attacked at most ", robust])
        cells = [NONE, both, *[NONE] * (2 + bool(bare))]
        rows.append(Row("mean over ten draws", cells, ["above, the worst of them counts"]))
    return Table(columns, rows)


def _attacker(key: str, result: Result, level: str, bare: dict[str, Verdict]) -> Row:
    """What is left for one attacker, or without an attack."""
    names, verdict = metrics.LEVELS.get(level, ()), bare.get(level)
    ran = sum(record.knowledge in names and not record.failed for record in result.attacks)
    at = f"{key}/level/{level}" if names else f"{key}/clean"
    resisted_at_most = metrics.bound_only(result, names, (metrics.CORRECT, metrics.REJECTED))
    cells = [
        figure_cell(count(f"{at}/attacks", ran) if names else None),
        share_cell(
            f"{at}/robust" if names else at,
            metrics.robust(result, names),
            at_most=metrics.bound_only(result, names),
        ),
    ]
    if bare:
        cells.append(share_cell(f"{at}/bare", verdict.bare, at_most=verdict.at_most[1]) if verdict else NONE)
    cells.append(share_cell(f"{at}/resisted", metrics.resisted(result, names), at_most=resisted_at_most))
    if names:
        cells.append(rejected_cell(f"{at}/rejected", result))
    else:
        cells.append(share_cell(f"{at}/rejected", metrics.rejected_clean(result)))
    return Row(level if names else "no attack", cells, KNOWS[level], level)


def attacks(key: str, result: Result) -> Table:
    """Every attack: what it did to the defence and to what the defence is made of, and what it cost."""
    steady = any(record.answers.steady for record in result.attacks)
    columns = [
        "attack", "images", "answered wrongly", "paper protocol\ncorrect attacked", STANDARD,
        *(["resubmitted\nmean correct"] if steady else []), "flagged", "bare classifier", "purifier only",
        "blur instead", "median distance", "seconds", PASSES,
    ]  # fmt: skip
    groups = [("", 1), ("the defence", 5 + steady), ("correct on the same images", 3), ("cost", 3)]
    rows = _attack_rows(result.attacks, lambda at, record: _attack(f"{key}/attack/{at}", result, record, steady))
    for line in result.left_out:
        name, _, why = line.partition(": ")
        rows.append(Row(name, strong=True, remark=f"Left out: {why}"))
    return Table(columns, rows, groups, dense=True, levels=levels(result))


def bare_classifier(key: str, bare: Result) -> Table:
    """The classifier without the defence, under its own attacks."""

    def cells(index: int, record: AttackRecord) -> list[Cell]:
        at = f"{key}/attack/{index}"
        return [*_broken(at, bare, record), _standard(at, bare, record), *_cost(at, record)]

    columns = ["attack", "images", "answered wrongly", STANDARD, "seconds", PASSES]
    return Table(columns, _attack_rows(bare.attacks, cells, knowledge=False), dense=True)


def _attack_rows(
    records: Sequence[AttackRecord], cells: Callable[[int, AttackRecord], list[Cell]], knowledge: bool = True
) -> list[Row]:
    """A row for each attack that had images, with its remarks; one for all attacks of a level that had none."""
    rows: list[Row] = []
    idle: dict[str, list[str]] = {}
    for index, record in enumerate(records):
        level = record.knowledge if knowledge else ""
        row = Row(record.name, small=[record.about], knowledge=level, strong=True)
        if record.answers.images:
            rows.append(replace(row, cells=cells(index, record)))
            remarks = ([f"Could not go on: {record.failed}"] if record.failed else []) + record.notes
            rows += [Row("", knowledge=level, remark=remark) for remark in remarks]
        elif record.failed:
            rows.append(replace(row, remark=f"Could not run: {record.failed}"))
        else:
            idle.setdefault(level, []).append(record.name)
    why = "Not run: earlier attacks had broken every image."
    return rows + [Row(", ".join(names), knowledge=level, strong=True, remark=why) for level, names in idle.items()]


def _attack(key: str, result: Result, record: AttackRecord, steady: bool) -> list[Cell]:
    answers = record.answers
    detector = bool(result.detection.get("detector")) or any(result.clean.flagged)
    resubmitted = number(f"{key}/steady", statistics.fmean(answers.steady), 3) if answers.steady else None
    norm = result.threat["norm"]
    median = distance(f"{key}/distance", statistics.median(record.distance), norm) if record.distance else None
    others = ("bare", "purified", "control")
    return [
        *_broken(key, result, record),
        share_cell(f"{key}/paper", metrics.paper(result, record), n=False),
        _standard(key, result, record),
        *([figure_cell(resubmitted)] if steady else []),
        share_cell(f"{key}/flagged", metrics.flagged(answers) if detector else None, n=False),
        *(share_cell(f"{key}/{who}", metrics.beside(result, answers, who), n=False) for who in others),
        figure_cell(median),
        *_cost(key, record),
    ]


def _standard(key: str, result: Result, record: AttackRecord) -> Cell:
    """Standard protocol, of an attack on all images."""
    return share_cell(f"{key}/standard", metrics.robust_under(result, record) if record.whole else None, n=False)


def _broken(key: str, result: Result, record: AttackRecord) -> list[Cell]:
    """How many images an attack had, and how many it broke."""
    broken = count(f"{key}/broken", metrics.broken(result, record))
    return [figure_cell(count(f"{key}/images", len(record.answers.images))), figure_cell(broken)]


def _cost(key: str, record: AttackRecord) -> list[Cell]:
    """Seconds, and passes through the classifier per image."""
    n = len(record.answers.images)
    forward, backward = number(f"{key}/forwards", record.forwards / n), number(f"{key}/backwards", record.backwards / n)
    return [figure_cell(number(f"{key}/seconds", record.seconds)), Cell([forward], [[backward]])]


def harmless(key: str, result: Result) -> Table:
    """A row for each harmless change, moderate ones first."""
    changes = result.detection["harmless"]
    rejects = any(row.get("rejected") for row in changes) or result.subject.get("rule") == "abstain"
    flags = bool(result.detection.get("detector"))
    moderate: list[Row] = []
    strong: list[Row] = []
    for index, row in enumerate(changes):
        # Results of older versions do not say how strong a change is.
        which = moderate if row.get("moderate", True) else strong
        which.append(_change(f"{key}/{index}", row, flags, rejects))
    if strong:
        strong.insert(0, Row("Strong changes", strong=True, remark="A person would notice these.", heading=True))
    columns = ["change", "bare classifier", "purifier only", "deployed", "flagged", *(["rejected"] if rejects else [])]
    groups = [("", 1), ("correct answers", 3), ("", 1 + rejects)]
    return Table(columns, moderate + strong, groups, dense=True)


def _change(key: str, row: dict[str, Any], flags: bool, rejects: bool) -> Row:
    def cell(name: str) -> Cell:
        return share_cell(f"{key}/{name}", Share(row[name], row["n"]), n=False) if name in row else NONE

    deployed = cell("right")
    lost = (max(row.get("bare", 0), row.get("purified", 0)) - row["right"]) / row["n"]
    if lost > LOSS_MARKED + 1e-9:
        points = Figure(f"{key}/lost", lost, f"{100 * lost:.1f}")
        deployed = replace(deployed, small=[*deployed.small, [points, " points lost"]], kind="marked")
    flagged = cell("flagged") if flags else NONE
    rejected = [cell("rejected")] if rejects else []
    return Row(str(row["change"]), [cell("bare"), cell("purified"), deployed, flagged, *rejected])


def side_by_side(results: Sequence[Result]) -> Table:
    """One row for each result: the figures that decide."""
    bare = "bare classifier\nits own attacks"
    columns = ["result", "clean", *metrics.LEVELS, bare, "resisted", "clean rejected"]
    groups = [("", 2), ("robust accuracy, standard protocol", 4), ("", 2)]
    return Table(columns, [_compared(at, result) for at, result in enumerate(results)], groups, dense=True)


def _compared(index: int, result: Result) -> Row:
    key = f"compare/{index}"
    cells = [share_cell(f"{key}/clean", metrics.clean(result), n=False)]
    for level, names in metrics.LEVELS.items():
        robust = metrics.robust(result, names) if level in levels(result) else None
        cells.append(share_cell(f"{key}/{level}", robust, n=False, at_most=metrics.bound_only(result, names)))
    bare, at_most = bare_share(result) if result.bare is not None else (None, False)
    cells += [
        share_cell(f"{key}/bare", bare, n=False, at_most=at_most),
        share_cell(f"{key}/resisted", metrics.resisted(result), n=False),
        rejected_cell(f"{key}/rejected", result),
    ]
    small = [setting(result), *([] if result.complete else ["INCOMPLETE"])]
    return Row(_numbered(index, result), cells, small, link=f"result-{index}")


def _numbered(index: int, result: Result) -> str:
    return f"{index + 1}. {result.subject['name']}"


def setting(result: Result) -> str:
    """Under what a result was measured."""
    return f"{attacked_how(result)}, n = {len(result.labels)}"


def pairs(results: Sequence[Result]) -> Table:
    """McNemar's test for each pair of results on the same images."""
    columns = ["pair", "kept by the first only", "kept by the second only", "p-value", "at the 5 % level they"]
    rows = [
        _pair(f"mcnemar/{one}/{two}", (_numbered(one, first), first), (_numbered(two, second), second))
        for (one, first), (two, second) in combinations(enumerate(results), 2)
    ]
    return Table(columns, rows)


def _pair(key: str, first: tuple[str, Result], second: tuple[str, Result]) -> Row:
    small = [setting(first[1]), f"against {second[0]}", setting(second[1])]
    try:
        only_first, only_second, p_value = metrics.mcnemar(first[1], second[1])
    except UsageError as error:
        return Row(first[0], small=small, remark=str(error))
    cells = [
        figure_cell(count(f"{key}/first", only_first)),
        figure_cell(count(f"{key}/second", only_second)),
        figure_cell(number(f"{key}/p", p_value, 4)),
        Cell(["differ" if p_value < 0.05 else "may be equally good"]),
    ]
    return Row(first[0], cells, [*small, *_differences(first[1], second[1])])


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
