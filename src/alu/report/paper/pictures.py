"""The tables as pictures: the paper's figure in grey, ours on the same column, and what is left under every attack."""

from __future__ import annotations

from collections.abc import Sequence

from alu.evaluation.intervals import Share
from alu.report.charts import chart
from alu.report.dots import Dot, alone, dots
from alu.report.paper import published
from alu.report.paper.results import Results, share
from alu.report.paper.shape import Chart, Shown

GREY, OURS, LEFT, BARE, DENOISED = "#a9b0bb", "#2b5fab", "#b3362d", "#1c2430", "#1a7f4b"
LEGEND = [("ALU, the paper", GREY), ("ALU here, the same attack (paper protocol)", OURS),
          ("ALU here, every attack together (standard protocol)", LEFT), ("without ALU, both", BARE)]  # fmt: skip
Row = tuple[str, Share | float | None, str]


def table1(results: Results, attacks: dict[str, str]) -> list[Shown]:
    """Each attack on the bare classifier, the denoiser and ALU, beside the paper's number."""
    rows: list[Row] = []
    paths = {"Standard": BARE, "+ purification": DENOISED, "+ ALU": OURS}
    for attack, name in attacks.items():
        found = results.found("table1", attack)
        for row, colour in paths.items():
            theirs = published.TABLE1[row].get(attack.split(",")[0])
            digits = found and {"Standard": found["bare"], "+ purification": found["purified"],
                                "+ ALU": found["input"]["alu"]}[row]  # fmt: skip
            rows += [(f"{name}, {row}", share(digits) if digits else None, colour)]
            rows += [(f"{name}, {row}: the paper", theirs / 100 if digits and theirs is not None else None, GREY)]
    for reading, row in (("bare", "Standard"), ("purified", "+ purification"), ("input", "+ ALU")):
        union = results.found("table1", f"adaptive, {reading}")
        rows += [(f"whoever knows all of it, {row}", share(union["adaptive"]) if union else None, LEFT)]
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
    return alone(dots("The paper and what was measured here", _known(_classifiers(results, "cifar10", names))))


def _classifiers(results: Results, dataset: str, names: dict[str, str]) -> list[Row]:
    rows: list[Row] = []
    for method, name in names.items():
        key, known = f"{dataset}-{method}", published.TABLE2[dataset]
        through = results.found("table2", f"{key}/pgd-20 on f(D(E))")
        if through:
            theirs = known[method][1] if method in known else published.UNIFIED[dataset]
            rows += [
                (f"{name} + ALU, PGD-20: the paper", theirs[1] / 100, GREY),
                (f"{name} + ALU, PGD-20 on f(D(E))", share(through["reconstruction"]["alu"]), OURS),
                (f"{name}, PGD-20 on f(D(E))", share(through["bare"]), BARE),
            ]
            left = _union(results, key, "reconstruction")
            if left:  # one without the other would compare two attackers
                rows += [(f"{name} + ALU, every attack", left, LEFT)]
                rows += [(f"{name}, every attack", _union(results, key, "bare"), BARE)]
    return rows


def _union(results: Results, key: str, reading: str) -> Share | None:
    if not results.found("table2", f"{key}/adaptive, {reading}"):
        return None
    return share(results.standing(key, reading))


def methods(rows: Sequence[tuple[str, float | None, Share | None, Share | None]]) -> list[Shown]:
    """Table 3: for each method the paper's PGD-20, what ours leaves, and what every attack leaves."""
    drawn: list[Row] = []
    for name, theirs, through, together in rows:
        if through or together:
            drawn += [
                (f"{name}: the paper, PGD-20", None if theirs is None else theirs / 100, GREY),
                (f"{name}: PGD-20", through, OURS),
                (f"{name}: every attack", together, LEFT),
            ]
    return _drawn("CIFAR-10: test-time methods", drawn, [
        ("the paper", GREY), ("here, PGD-20 on f and through the purifier (paper protocol)", OURS),
        ("here, every attack together (standard protocol)", LEFT),
    ])  # fmt: skip


def _drawn(title: str, rows: Sequence[Row], legend: list[tuple[str, str]]) -> list[Shown]:
    """The rows that have been measured; nothing where none has."""
    known = _known(rows)
    if not any(isinstance(dot.share, Share) for dot in known):
        return []
    return [Chart(chart(title, dots(title, known), legend))]


def _known(rows: Sequence[Row]) -> list[Dot]:
    return [Dot(name, value, colour) for name, value, colour in rows if value is not None]
