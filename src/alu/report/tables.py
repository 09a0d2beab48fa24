"""Tables: the summary by what the attacker knows, every attack, and several results side by side."""

from __future__ import annotations

import statistics
from html import escape
from itertools import combinations

from alu.errors import UsageError
from alu.evaluation import metrics
from alu.evaluation.printed import eps_text
from alu.evaluation.result import AttackRecord, Result
from alu.evaluation.verdicts import Verdict, bare_share, verdicts
from alu.report.figures import COLOURS, NONE, count, distance, figure, number, percent, share
from alu.report.page import table
from alu.stats import Share

KNOWS = {
    "oblivious": "knows the classifier, not the defence",
    "surrogate": "also the gradient through one pass of the purifier",
    "adaptive": "knows everything: the purifier, its steps, the threshold, the rule",
}


def coloured(knowledge: str) -> str:
    """A level of knowledge with its colour."""
    colour = COLOURS.get(knowledge, "#667")
    return f'<span class="tick" style="background:{colour}"></span>{escape(knowledge)}'


def levels(result: Result) -> list[str]:
    """The levels of knowledge of which there is an attack."""
    return [name for name in metrics.LEVELS if any(record.knowledge == name for record in result.attacks)]


def summary(key: str, result: Result) -> str:
    """Clean and robust accuracy, standard protocol, for attackers who know more and more."""
    rejected = metrics.rejected_clean(result)
    bare = {verdict.level: verdict for verdict in verdicts(result)}
    clean_outcomes = metrics.outcomes(result.clean, result.labels).values()
    harmless = Share(sum(value != metrics.WRONG for value in clean_outcomes), len(clean_outcomes))
    rows = [
        [
            f'<span class="tick" style="background:{COLOURS["clean"]}"></span>no attack',
            NONE,
            share(f"{key}/clean", metrics.clean(result)),
            *_bare(f"{key}/clean/bare", bare, "clean"),
            share(f"{key}/clean/resisted", harmless),
            share(f"{key}/clean/rejected", rejected),
        ]
    ]
    for level in levels(result):
        names = metrics.LEVELS[level]
        ran = sum(record.knowledge in names and not record.failed for record in result.attacks)
        bound = "at most " if metrics.bound_only(result, names) else ""
        both = (metrics.CORRECT, metrics.REJECTED)
        loose = "at most " if metrics.bound_only(result, names, both) else ""
        rows.append(
            [
                f"{coloured(level)}<small>{KNOWS[level]}</small>",
                count(f"{key}/level/{level}/attacks", ran),
                share(f"{key}/level/{level}/robust", metrics.robust(result, names), least=bound),
                *_bare(f"{key}/level/{level}/bare", bare, level),
                share(f"{key}/level/{level}/resisted", metrics.resisted(result, names), least=loose),
                percent(f"{key}/level/{level}/rejected", rejected),
            ]
        )
    means = metrics.over_draws(result)
    if means is not None:
        says = (
            f"clean {figure(f'{key}/draws/clean', means[0], f'{100 * means[0]:.1f} %')}, attacked at most "
            f"{figure(f'{key}/draws/robust', means[1], f'{100 * means[1]:.1f} %')}"
        )
        empty = [NONE] * (2 + bool(bare))
        rows.append(["mean over ten draws<small>above, the worst of them counts</small>", NONE, says, *empty])
    header = [
        "attacker",
        "attacks",
        "right answers<small>clean, then robust accuracy</small>",
        *(["bare classifier<small>right answers, same attacker</small>"] if bare else []),
        "resisted<small>right or rejected</small>",
        "clean images rejected<small>read with “resisted”</small>",
    ]
    return table(header, rows)


def _bare(key: str, bare: dict[str, Verdict], level: str) -> list[str]:
    """The bare classifier against the same attacker, where the subject is a defence."""
    if not bare:
        return []
    found = bare.get(level)
    return [NONE if found is None else share(key, found.bare, least="at most " if found.at_most[1] else "")]


def attacks(key: str, result: Result) -> str:
    """Every attack: what it did to the defence and to what the defence is made of, and what it cost."""
    detector = bool(result.detection.get("detector")) or any(result.clean.flagged)
    steady = any(record.judged.steady for record in result.attacks)
    rows: list[list[str]] = []
    for index, record in enumerate(result.attacks):
        if record.judged.images or record.failed:
            rows += _attack(f"{key}/attack/{index}", result, record, detector, steady)
    idle = [escape(record.name) for record in result.attacks if not record.judged.images and not record.failed]
    if idle:
        rows.append([f"<strong>{', '.join(idle)}</strong>", "No image was left standing when their turn came."])
    header = [
        "attack",
        "images",
        "answered wrongly",
        "paper protocol<small>right attacked</small>",
        "standard protocol<small>right clean and attacked</small>",
        *(["resubmitted<small>mean right</small>"] if steady else []),
        "flagged",
        "bare classifier",
        "purifier alone",
        "blur instead",
        "median distance",
        "seconds",
        "passes per image<small>forward</small><small>backward</small>",
    ]
    groups = [("", 1), ("the defence", 5 + steady), ("right on the same images", 3), ("cost", 3)]
    return table(header, rows, groups, dense=True)


def _attack(key: str, result: Result, record: AttackRecord, detector: bool, steady: bool) -> list[list[str]]:
    title = (
        f"<strong>{escape(record.name)}</strong><small>{coloured(record.knowledge)}</small>"
        f"<small>{escape(record.about)}</small>"
    )
    judged, n = record.judged, len(record.judged.images)
    if not n:
        return [[title, f"Could not run: {escape(record.failed)}"]]
    who = ("bare", "purified", "control")
    beside = [share(f"{key}/{name}", metrics.beside(result, judged, name), n=False) for name in who]
    alone = metrics.alone(result, record) if record.whole else None
    mean = [number(f"{key}/steady", statistics.fmean(judged.steady), 3) if judged.steady else NONE] if steady else []
    middle = statistics.median(record.distance) if record.distance else None
    row = [
        title,
        count(f"{key}/images", n),
        count(f"{key}/broken", metrics.broken(result, record)),
        share(f"{key}/paper", metrics.paper(result, record), n=False),
        share(f"{key}/alone", alone, n=False),
        *mean,
        share(f"{key}/flagged", metrics.flagged(judged) if detector else None, n=False),
        *beside,
        distance(f"{key}/distance", middle, result.threat["norm"]),
        number(f"{key}/seconds", record.seconds),
        number(f"{key}/forwards", record.forwards / n)
        + f"<small>{number(f'{key}/backwards', record.backwards / n)}</small>",
    ]
    remarks = [f"Could not go on: {record.failed}"] if record.failed else []
    return [row, *(["", escape(remark)] for remark in remarks + record.notes)]


def side_by_side(results: list[Result]) -> str:
    """One row for each result: the figures that decide."""
    rows = []
    for index, result in enumerate(results):
        key = f"compare/{index}"
        cells = [share(f"{key}/clean", metrics.clean(result), n=False)]
        for level, names in metrics.LEVELS.items():
            bound = "at most " if metrics.bound_only(result, names) else ""
            robust = metrics.robust(result, names) if level in levels(result) else None
            cells.append(share(f"{key}/{level}", robust, least=bound, n=False))
        bare, at_most = bare_share(result) if result.bare is not None else (None, False)
        cells += [
            share(f"{key}/bare", bare, least="at most " if at_most else "", n=False),
            share(f"{key}/resisted", metrics.resisted(result), n=False),
            percent(f"{key}/rejected", metrics.rejected_clean(result)),
        ]
        name = f'<a href="#result-{index}">{_named(index, result)}</a><small>{escape(setting(result))}</small>'
        rows.append([name + ("" if result.complete else "<small>INCOMPLETE</small>"), *cells])
    header = ["result", "clean", *metrics.LEVELS, "bare classifier<small>its own attacks</small>", "resisted"]
    header.append("clean rejected")
    return table(header, rows, [("", 2), ("robust accuracy, standard protocol", 4), ("", 2)], dense=True)


def _named(index: int, result: Result) -> str:
    return f"{index + 1}. {escape(result.subject['name'])}"


def setting(result: Result) -> str:
    """Under what a result was measured."""
    threat = result.threat
    eps = eps_text(threat["eps"], threat["norm"])
    return f"{threat['norm']} eps {eps}, suite {result.suite}, budget {result.budget}, n = {len(result.labels)}"


def _unequal(first: Result, second: Result) -> list[str]:
    """Why two results are not about the same opponent."""
    made = []
    if first.threat != second.threat:
        made.append("under different threat models")
    if (first.suite, first.budget) != (second.suite, second.budget):
        made.append("by different suites or budgets: the one attacked harder looks worse")
    if not (first.complete and second.complete):
        made.append("not both complete")
    return made


def paired(results: list[Result]) -> str:
    """McNemar's test for each pair of results on the same images."""
    rows: list[list[str]] = []
    for (one, first), (two, second) in combinations(enumerate(results), 2):
        key = f"mcnemar/{one}/{two}"
        name = "against ".join(
            f"{_named(index, result)}<small>{escape(setting(result))}</small>"
            for index, result in ((one, first), (two, second))
        )
        try:
            only_first, only_second, chance = metrics.mcnemar(first, second)
        except UsageError as error:
            rows.append([name, escape(str(error))])
            continue
        same = "".join(f"<small>{reason}</small>" for reason in _unequal(first, second))
        verdict = "differ" if chance < 0.05 else "may be equally good"
        rows.append(
            [
                name + same,
                count(f"{key}/first", only_first),
                count(f"{key}/second", only_second),
                number(f"{key}/p", chance, 4),
                verdict,
            ]
        )
    return table(["pair", "only the first holds", "only the second holds", "p-value", "at the 5 % level they"], rows)
