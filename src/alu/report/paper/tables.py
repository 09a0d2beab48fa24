"""Tables 1, 2 and 3: the paper's number above ours, under its protocol and under the standard one."""

from __future__ import annotations

from typing import Any

from alu.report.paper import published
from alu.report.paper.results import Results, both, share
from alu.report.paper.shape import Shown, Table, percent, said_by_the_paper

ATTACKS1 = {
    "pgd-20": "PGD-20", "cw-linf": "C&W L∞", "cw-l2, c fixed": "C&W L2, c = 1", "cw-l2, c searched": "C&W L2, searched",
    "autoattack": "AutoAttack",
}  # fmt: skip
COLUMNS2 = {
    "clean": "clean",
    "pgd-20 on f": "PGD-20 on f",
    "pgd-20 on f(D(E))": "PGD-20 on f(D(E))",
    "autoattack on f": "AutoAttack on f",
    "autoattack on f(D(E))": "AutoAttack on f(D(E))",
}
NAMES = {
    "standard": "Standard", "at": "Adversarial training", "trades": "TRADES", "fat": "FAT", "gairat": "GAIRAT",
    "mart": "MART", "unified": "Unified ALU",
}  # fmt: skip
NOT_BUILT = ("Reverse attack (Mao 2021)", "SOAP (Shi 2021)", "ADP (Yoon 2021)", "Long-run EBM (Hill 2021)", "DiffPure")


NOTES = {
    "paper": (
        "The paper's figures stand where they belong: the bare classifier's under attacks on f, ALU's under attacks "
        "on f(D(E)), which is what it calls white-box."
    ),
    "standard": "Right clean and right attacked. Adaptive union: under every attack of the adaptive suite, quick.",
}


def table1(results: Results) -> list[Shown]:
    """Right answers of the bare classifier, after denoising, and with ALU."""
    clean = results.found("table1", "clean")
    if clean is None:
        return [_empty("Right answers, percent", results.absent("table1", "clean"))]
    ours = {
        "Standard": ("bare",), "+ purification": ("purified",), "+ ALU": ("input", "alu"),
        "+ ALU, if all were flagged": ("input", "all flagged"),
        "flagged": ("input", "flagged"),
    }  # fmt: skip
    rows = []
    for row, path in ours.items():
        known = published.TABLE1.get(row, {})
        if known:
            paper = [said_by_the_paper(known.get(name.split(",")[0])) for name in ATTACKS1]
            rows.append([row, "–", *paper])
        cells = [percent(share(_at(results.found("table1", name), path))) if results.found("table1", name) else "–"
                 for name in ATTACKS1]  # fmt: skip
        rows.append(["here" if known else row, percent(share(_at(clean, path))), *cells])
    made: list[Shown] = [
        Table(
            "Right answers on attacked images, percent (paper protocol; the attacker knows the classifier only)",
            ["", "clean", *ATTACKS1.values()],
            rows,
            "The paper's C&W L2 leaves 41 % of an undefended network, so it cannot have searched for the smallest "
            "change: both variants are shown.",
        )
    ]
    lengths = _lengths(results)
    return [*made, lengths] if lengths else made


def _lengths(results: Results) -> Table | None:
    rows = []
    for name in ("cw-l2, c fixed", "cw-l2, c searched"):
        found = results.found("table1", name)
        if found:
            lengths = [length for length, right in zip(found["lengths"], found["bare"], strict=True) if right == "0"]
            short = "".join("1" if length <= 0.5 and right == "0" else "0"
                            for length, right in zip(found["lengths"], found["bare"], strict=True))  # fmt: skip
            middle = sorted(lengths)[len(lengths) // 2] if lengths else float("nan")
            rows.append([ATTACKS1[name], f"{middle:.3f}", percent(share(short))])
    header = ["attack", "median length of the successful ones", "wrong with a length up to 0.5, percent"]
    return Table("C&W L2: how far the images were moved", header, rows) if rows else None


def table2(results: Results) -> list[Shown]:
    """Two tables for each data set: the paper protocol beside the paper's numbers, then the standard protocol."""
    made: list[Shown] = []
    for dataset in published.TABLE2:
        for protocol in ("paper", "standard"):
            rows: list[list[str]] = []
            for method, name in NAMES.items():
                rows += _method(results, dataset, method, name, protocol)
            header = ["", *COLUMNS2.values(), *(["adaptive union"] if protocol == "standard" else [])]
            if rows:
                made.append(
                    Table(f"{dataset}: right answers, percent ({protocol} protocol)", header, rows, NOTES[protocol])
                )
    return made or [_empty("Right answers, percent", "not measured yet")]


def _method(results: Results, dataset: str, method: str, name: str, protocol: str) -> list[list[str]]:
    key = f"{dataset}-{method}"
    cells = {column: results.found("table2", f"{key}/{column}") for column in COLUMNS2}
    wide = len(COLUMNS2) - 1 + (protocol == "standard")
    if not any(cells.values()):
        known = results.experiments.get("table2", {}).get("cells", {})
        return [[name, results.absent("table2", f"{key}/clean"), *["–"] * wide]] if f"{key}/clean" in known else []
    rows: list[list[str]] = []
    bare, alu = published.TABLE2[dataset].get(method, (None, published.UNIFIED[dataset]))
    for label, path, numbers, on, reading in (
        (name, ("bare",), bare, "f", "bare"),
        ("+ purification", ("purified",), None, "", ""),
        ("+ ALU, input reading", ("input", "alu"), None, "", "input"),
        ("+ ALU, reconstruction", ("reconstruction", "alu"), alu, "f(D(E))", "reconstruction"),
        ("+ ALU, rec., if all were flagged", ("reconstruction", "all flagged"), None, "", ""),
    ):
        if protocol == "standard":
            rows.append([label, *_standing(cells, path), _union(results, key, reading)])
            continue
        if numbers:
            there = {"clean": numbers[0], f"pgd-20 on {on}": numbers[1], f"autoattack on {on}": numbers[2]}
            rows.append([f"{label}: the paper", *(said_by_the_paper(there.get(column)) for column in COLUMNS2)])
        shown = [percent(share(_at(cell, path))) if cell else "–" for cell in cells.values()]
        rows.append([f"{label}: here" if numbers else label, *shown])
    return rows


def _standing(cells: dict[str, Any], path: tuple[str, ...]) -> list[str]:
    """Right clean and right attacked; fewer images are the first of more."""
    clean = _at(cells["clean"] or {}, path if path[-1] != "all flagged" else (path[0], "alu"))
    made = []
    for cell in cells.values():
        attacked = _at(cell, path) if cell else ""
        made.append(percent(share(both(clean[: len(attacked)], attacked))) if attacked and clean else "–")
    return made


def _union(results: Results, key: str, reading: str) -> str:
    found = results.found("table2", f"{key}/adaptive, {reading}") if reading else None
    return percent(share(found["adaptive"])) if found else "–"


def table3(results: Results) -> list[Shown]:
    """The rows that exist here, and those that do not yet."""
    from_paper = published.TABLE3
    columns = ("clean", "pgd-20 on f", "pgd-20 through the purifier", "autoattack on f")
    rows: list[list[str]] = []
    names = dict.fromkeys(key.split("/")[0] for key in results.experiments.get("table3", {}).get("cells", {}))
    for name in names:
        if name in from_paper:
            clean, pgd, hard = (said_by_the_paper(value) for value in from_paper[name])
            rows.append([f"{name}: the paper", clean, "–", pgd, hard, "–"])
        cells = []
        for column in columns:
            found = results.found("table3", f"{name}/{column}")
            cells.append(percent(share(_at(found, _answer(name)))) if found else "–")
        union = results.found("table3", f"{name}/adaptive")
        if not any(cell != "–" for cell in cells):
            cells[0] = results.absent("table3", f"{name}/clean")
        rows.append([f"{name}: here", *cells, percent(share(union["adaptive"])) if union else "–"])
    rows += [
        [f"{name}: the paper, not built here yet", *_three(from_paper.get(name)), "–"] for name in NOT_BUILT
    ]  # fmt: skip
    header = ["", *columns, "adaptive union (standard protocol)"]
    note = "The paper took its figures of other methods from papers whose attackers knew less; they are no ranking."
    return [Table("CIFAR-10: right answers, percent (paper protocol)", header, rows, note)]


KNOWS = {
    "no attack": "",
    "oblivious": "PGD-20 on the classifier, 8/255; knows nothing of the defence",
    "transfer": "momentum PGD-20 on another network",
    "query": "asks the deployed defence (Square and a hard-label search, budget quick); no gradients",
    "surrogate": "PGD-20 on f(D(E)), which the paper calls white-box",
    "adaptive": "knows everything; union of all attacks, budget quick",
}
"""What each attacker of the threat-model card does."""


def threats(results: Results) -> list[Shown]:
    """The threat-model card: one row for each kind of attacker."""
    rows = []
    for row, knows in KNOWS.items():
        cells = []
        for reading in ("input", "reconstruction", "purified"):
            found = results.found("threats", f"{reading}/{row}")
            if not found:
                cells.append(results.absent("threats", f"{reading}/{row}"))
            elif row == "adaptive":
                cells.append(percent(share(found["adaptive"])))
            else:
                cells.append(percent(share(both(found["clean"], found["attacked"]))))
        rows.append([row, knows, *cells])
    header = ["attacker", "what it does", "ALU, input reading", "ALU, reconstruction reading", "purified only"]
    title = "Right clean and right attacked, percent (standard protocol): cifar10-standard behind cifar10-vae, N = 20"
    return [Table(title, header, rows)]


def _answer(row: str) -> tuple[str, ...]:
    if row == "Unified ALU":
        return ("reconstruction", "alu")
    return ("input", "alu") if "+ ALU" in row or "input reading" in row else ("purified",)


def _three(numbers: tuple[float | None, float | None, float | None] | None) -> list[str]:
    clean, pgd, hard = numbers or (None, None, None)
    return [said_by_the_paper(clean), "–", said_by_the_paper(pgd), said_by_the_paper(hard)]


def _at(found: dict[str, Any], path: tuple[str, ...]) -> str:
    value: Any = found
    for key in path:
        value = value.get(key, "") if isinstance(value, dict) else ""
    return str(value)


def _empty(title: str, why: str) -> Table:
    return Table(title, ["", ""], [["", why]])
