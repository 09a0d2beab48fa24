"""The tables as pictures: the paper's figure in grey, ours on the same column, and what is left under every attack."""

from __future__ import annotations

from collections.abc import Sequence

from alu.evaluation.intervals import Share
from alu.report.charts import chart
from alu.report.dots import GREY, Dot, alone, dots
from alu.report.paper import published
from alu.report.paper.results import Results, share
from alu.report.paper.shape import Chart, Shown

OURS, LEFT, BARE, DENOISED = "#2b5fab", "#b3362d", "#1c2430", "#1a7f4b"
LEGEND = [("ALU, the paper", GREY), ("ALU here, the same attack (paper protocol)", OURS),
          ("ALU here, every attack together (standard protocol)", LEFT), ("without ALU, both", BARE)]  # fmt: skip


def table1(results: Results, attacks: dict[str, str]) -> list[Shown]:
    """Each attack on the bare classifier, the denoiser and ALU, beside the paper's number."""
    rows: list[Dot] = []
    paths = {"Standard": BARE, "+ purification": DENOISED, "+ ALU": OURS}
    for attack, name in attacks.items():
        found = results.found("table1", attack)
        if not found:
            continue
        ours = {"Standard": found["bare"], "+ purification": found["purified"], "+ ALU": found["input"]["alu"]}
        for row, colour in paths.items():
            theirs = published.TABLE1[row].get(attack.split(",")[0])
            rows.append(Dot(row, share(ours[row]), colour, name, None if theirs is None else theirs / 100))
    for reading, row in (("bare", "Standard"), ("purified", "+ purification"), ("input", "+ ALU")):
        union = results.found("table1", f"adaptive, {reading}")
        if union:
            rows.append(Dot(row, share(union["adaptive"]), LEFT, "whoever knows all of it"))
    legend = [("the paper", GREY), ("bare classifier", BARE), ("denoised", DENOISED), ("ALU, deployed", OURS),
              ("the adaptive suite", LEFT)]  # fmt: skip
    return _drawn("Right answers under each attack (paper protocol; the adaptive suite: standard)", rows, legend)


def table2(results: Results, names: dict[str, str]) -> list[Shown]:
    """For each data set and classifier: ALU in the paper's column, and what every attack together leaves."""
    made: list[Shown] = []
    for dataset in published.TABLE2:
        made += _drawn(f"{dataset}: ALU in the reconstruction reading", _classifiers(results, dataset, names), LEGEND)
    return made


def summary(results: Results, names: dict[str, str]) -> str:
    """Table 2 on CIFAR-10 as a file of its own, for the README."""
    return alone(dots("The paper and what was measured here", _classifiers(results, "cifar10", names)))


def _classifiers(results: Results, dataset: str, names: dict[str, str]) -> list[Dot]:
    rows: list[Dot] = []
    for method, name in names.items():
        key, known = f"{dataset}-{method}", published.TABLE2[dataset]
        through = results.found("table2", f"{key}/pgd-20 on f(D(E))")
        if not through:
            continue
        theirs = known[method][1] if method in known else published.UNIFIED[dataset]
        same = "PGD-20 on f(D(E))"
        rows += [
            Dot(f"+ ALU, {same}", share(through["reconstruction"]["alu"]), OURS, name, theirs[1] / 100),
            Dot(f"alone, {same}", share(through["bare"]), BARE, name),
        ]
        left, bare = (_union(results, key, reading) for reading in ("reconstruction", "bare"))
        if left and bare:  # one without the other would compare two attackers
            rows += [Dot("+ ALU, every attack", left, LEFT, name), Dot("alone, every attack", bare, BARE, name)]
    return rows


def _union(results: Results, key: str, reading: str) -> Share | None:
    if not results.found("table2", f"{key}/adaptive, {reading}"):
        return None
    return share(results.standing(key, reading))


def methods(rows: Sequence[tuple[str, float | None, Share | None, Share | None]]) -> list[Shown]:
    """Table 3: for each method the paper's PGD-20, what ours leaves, and what every attack leaves."""
    drawn: list[Dot] = []
    for name, theirs, through, together in rows:
        if through:
            drawn.append(Dot("PGD-20", through, OURS, name, None if theirs is None else theirs / 100))
        if together:
            drawn.append(Dot("every attack", together, LEFT, name))
    return _drawn("CIFAR-10: test-time methods", drawn, [
        ("the paper", GREY), ("here, PGD-20 on f and through the purifier (paper protocol)", OURS),
        ("here, every attack together (standard protocol)", LEFT),
    ])  # fmt: skip


def _drawn(title: str, rows: Sequence[Dot], legend: list[tuple[str, str]]) -> list[Shown]:
    """What has been measured; nothing where nothing has."""
    return [Chart(chart(title, dots(title, rows), legend))] if rows else []
