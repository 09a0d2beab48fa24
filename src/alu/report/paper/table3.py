"""Table 3: other test-time methods under the same attackers, the paper's numbers above ours."""

from __future__ import annotations

from typing import Any

from alu.evaluation.intervals import Share
from alu.evaluation.resampling import mean
from alu.report.paper import pictures, published
from alu.report.paper.results import Results, both, incomplete, share, still_standing
from alu.report.paper.shape import Shown, Table, percent, said_by_the_paper
from alu.report.paper.tables import at, standing

OWN = "Unified ALU"
NOT_BUILT = ("Reverse attack (Mao 2021)", "SOAP (Shi 2021)", "ADP (Yoon 2021)", "Long-run EBM (Hill 2021)")
TOGETHER = (
    "Together: under these and every attack of the adaptive suite, budget quick. AutoAttack through Anti-Adversary and "
    "Hedge, each of whose answers takes several gradients of the classifier, is out of reach here. Hedge is random: "
    "its columns are of one draw, and together counts the worst of ten."
)
COLUMNS3 = {
    "clean": "clean", "pgd-20 on f": "PGD-20 on f", "pgd-20 through": "PGD-20 through the purifier",
    "autoattack on f": "AutoAttack on f", "autoattack through": "AutoAttack through the purifier",
}  # fmt: skip


def table3(results: Results) -> list[Shown]:
    """The rows that exist here, in both protocols, and those that do not yet."""
    rows: list[list[str]] = []
    strict: list[list[str]] = []
    means = ""
    drawn: list[tuple[str, float | None, Share | None, Share | None]] = []
    known = results.experiments.get("table3", {}).get("cells", {})
    for name in dict.fromkeys(key.split("/")[0] for key in known):
        cells = {column: results.found("table3", f"{name}/{column}") for column in COLUMNS3}
        if name in published.TABLE3:
            rows.append([f"{name}: the paper", *_three(published.TABLE3[name], "Unified" in name)])
        path, why = answer_of(name), results.absent("table3", f"{name}/clean")
        shown = [percent(share(at(cell, path))) if cell else "–" for cell in cells.values()]
        rows.append([f"{name}: here", *(shown if any(cells.values()) else [why])])
        union = results.found("table3", f"{name}/adaptive")
        left = share(left_of(results, name)) if union else None
        together = percent(left) + incomplete(union) if union else "–"
        means += _over_draws(name, union)
        two = [at(cell, path) for cell in (cells["pgd-20 on f"], cells["pgd-20 through"]) if cell]
        drawn.append(
            (name, published.TABLE3.get(name, (None,) * 3)[1], share(both(*two)) if len(two) == 2 else None, left)
        )
        strict.append([name, *([*standing(cells, path), together] if cells["clean"] else [why])])
    rows += [[f"{name}: the paper, not built here yet", *_three(published.TABLE3[name])] for name in NOT_BUILT]
    note = (
        "Figures that the paper marks with a star (all of Hedge, AWP, SOAP, ADP, and the PGD-20 of the long-run EBM) "
        "are from other papers, most of them under attackers who knew less; AWP is a way of training. They are no "
        "ranking."
    )
    return [
        *pictures.methods(drawn),
        Table("CIFAR-10: right answers, percent (paper protocol)", ["", *COLUMNS3.values()], rows, note),
        Table("CIFAR-10: right clean and attacked, percent (standard protocol)",
              ["", *COLUMNS3.values(), "every attack together"], strict, TOGETHER + means),
        _elsewhere(results),
    ]  # fmt: skip


def _over_draws(name: str, union: dict[str, Any] | None) -> str:
    """What the mean draw of a random method answers, beside the worst one."""
    if union is None or "right draws" not in union:
        return ""
    clean, least = (percent(mean(union["right draws"][when])) for when in ("clean", "adaptive"))
    return (
        f" {name}, percent of ten draws, on average: {clean} right clean, and at most {least} under every attack of "
        "the suite; an image that one draw gets wrong is attacked no further."
    )


def _elsewhere(results: Results) -> Table:
    """The paper's numbers on the other data sets, and Unified ALU there, which table 2 measures."""
    sets = ("cifar100", "tiny-imagenet")
    columns = ("clean", "pgd-20 on f(D(E))", "autoattack on f(D(E))")
    rows = []
    for name, known in published.TABLE3_ELSEWHERE.items():
        row = [f"{name}: the paper"]
        for dataset in sets:
            row += [said_by_the_paper(number) for number in known.get(dataset, (None,) * 3)]
        rows.append(row)
    here = ["Unified ALU: here"]
    for dataset in sets:
        for column in columns:
            found = results.found("table2", f"{dataset}-unified/{column}")
            here.append(percent(share(found["reconstruction"]["alu"])) if found else "–")
    header = ["", *(f"{dataset}, {attack}" for dataset in sets for attack in ("clean", "PGD-20", "AutoAttack"))]
    note = "Ours: reconstruction reading, attacks on f(D(E)); the other methods are measured on CIFAR-10 only."
    return Table("CIFAR-100 and tiny-ImageNet: right answers, percent (paper protocol)", header, [*rows, here], note)


def left_of(results: Results, row: str) -> str:
    """What stands of a method under the adaptive suite, and under the table's own attacks on the same images."""
    cells = [results.found("table3", f"{row}/{column}") for column in COLUMNS3]
    others = (at(cell, answer_of(row)) for cell in cells if cell)
    return still_standing(results.need("table3", f"{row}/adaptive"), others)


def answer_of(row: str) -> tuple[str, ...]:
    """Where a row's answer stands in a cell."""
    if row == OWN:
        return ("reconstruction", "alu")
    return ("input", "alu") if "+ ALU" in row or "input reading" in row else ("purified",)


def _three(numbers: tuple[float | None, float | None, float | None], through: bool = False) -> list[str]:
    """Clean, PGD-20 and AutoAttack of the paper, which attacks its own method through the VAE."""
    clean, pgd, hard = map(said_by_the_paper, numbers)
    return [clean, "–", pgd, "–", hard] if through else [clean, pgd, "–", hard, "–"]
