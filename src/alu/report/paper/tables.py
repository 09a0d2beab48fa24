"""Tables 1 and 2: the paper's number above ours, under its protocol and under the standard one."""

from __future__ import annotations

from typing import Any

from alu.report.paper import pictures, published
from alu.report.paper.results import Results, both, incomplete, share, still_standing
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
    "mart": "MART", "unified": "Unified classifier",
}  # fmt: skip
NOTES = {
    "paper": (
        "The paper's figures stand where they belong: the bare classifier's under attacks on f, ALU's under attacks "
        "on f(D(E)), which is what it calls white-box."
    ),
    "standard": "Right clean and right attacked. Together: under these and every attack of the adaptive suite.",
}


def table1(results: Results) -> list[Shown]:
    """Right answers of the bare classifier, after denoising, and with ALU, in both protocols."""
    clean = results.found("table1", "clean")
    if clean is None:
        return [_empty("Right answers, percent", results.absent("table1", "clean"))]
    ours = {
        "Standard": ("bare",), "+ purification": ("purified",), "+ ALU": ("input", "alu"),
        "+ ALU, if all were flagged": ("input", "all flagged"), "flagged": ("input", "flagged"),
    }  # fmt: skip
    cells = {"clean": clean, **{name: results.found("table1", name) for name in ATTACKS1}}
    rows, strict = [], []
    for row, path in ours.items():
        known = published.TABLE1.get(row, {})
        if known:
            rows.append(
                [f"{row}: the paper", "–", *(said_by_the_paper(known.get(name.split(",")[0])) for name in ATTACKS1)]
            )
        shown = [percent(share(at(cell, path))) if cell else "–" for cell in cells.values()]
        rows.append([f"{row}: here" if known else row, *shown])
        if row != "flagged":
            strict.append([row, *standing(cells, path), _together1(results, cells, path)])
    header = ["", "clean", *ATTACKS1.values()]
    note = (
        "The attacker knows the classifier only. The paper's C&W L2 leaves 41 % of an undefended network, so it "
        "cannot have "
        "searched for the smallest change: both variants are shown."
    )
    made: list[Shown] = [
        *pictures.table1(results, ATTACKS1),
        Table("Right answers on attacked images, percent (paper protocol)", header, rows, note),
        Table(
            "Right clean and right attacked, percent (standard protocol)",
            [*header, "every attack together"],
            strict,
            "Together: under these and every attack of the adaptive suite, whose attackers know the denoiser.",
        ),
    ]
    lengths = _lengths(results)
    return [*made, lengths] if lengths else made


def _together1(results: Results, cells: dict[str, Any], path: tuple[str, ...]) -> str:
    """Every attack together: the adaptive suite, and the table's own attacks in its norm on the same images."""
    found = None if path[-1] == "all flagged" else results.found("table1", f"adaptive, {path[0]}")
    if not found:
        return "–"
    others = (at(cell, path) for name, cell in cells.items() if cell and not name.startswith("cw-l2"))
    return percent(share(still_standing(found, others))) + incomplete(found)


def _lengths(results: Results) -> Table | None:
    """Of images that were right clean: how far the successful attacks moved them."""
    rows = []
    clean = results.found("table1", "clean")
    for name in ("cw-l2, c fixed", "cw-l2, c searched"):
        found = results.found("table1", name)
        if found and clean:
            n = len(found["bare"])
            every = zip(found["lengths"], clean["bare"][:n], found["bare"], strict=True)
            pairs = [(length, after) for length, before, after in every if before == "1"]
            lengths = sorted(length for length, after in pairs if after == "0")
            short = "".join("1" if length <= 0.5 and after == "0" else "0" for length, after in pairs)
            middle = f"{lengths[len(lengths) // 2]:.3f}" if lengths else "–"
            rows.append([ATTACKS1[name], middle, percent(share(short))])
    header = ["attack", "median length of the successful ones", "fooled with a length up to 0.5, percent"]
    return Table("C&W L2: how far images that were right clean were moved", header, rows) if rows else None


def table2(results: Results) -> list[Shown]:
    """Two tables for each data set: the paper protocol beside the paper's numbers, then the standard protocol."""
    made: list[Shown] = pictures.table2(results, NAMES)
    for dataset in published.TABLE2:
        for protocol in ("paper", "standard"):
            rows: list[list[str]] = []
            for method, name in NAMES.items():
                rows += _method(results, dataset, method, name, protocol)
            header = ["", *COLUMNS2.values(), *(["every attack together"] if protocol == "standard" else [])]
            if rows:
                note = NOTES[protocol] + (_budgets(results, dataset) if protocol == "standard" else "")
                made.append(Table(f"{dataset}: right answers, percent ({protocol} protocol)", header, rows, note))
    return made or [_empty("Right answers, percent", "not measured yet")]


def _method(results: Results, dataset: str, method: str, name: str, protocol: str) -> list[list[str]]:
    key = f"{dataset}-{method}"
    cells = {column: results.found("table2", f"{key}/{column}") for column in COLUMNS2}
    bare, alu = published.TABLE2[dataset].get(method, (None, published.UNIFIED[dataset]))
    if not any(cells.values()):
        known = results.experiments.get("table2", {}).get("cells", {})
        if f"{key}/clean" not in known:
            return []
        why = results.absent("table2", f"{key}/clean")
        if protocol == "standard":
            return [[name, why]]
        said = [_said(name, bare, "f")] if bare else []
        return [*said, _said(f"{name} + ALU, reconstruction", alu, "f(D(E))"), [f"{name}: here", why]]
    rows: list[list[str]] = []
    for label, path, numbers, on, reading in (
        (name, ("bare",), bare, "f", "bare"),
        ("+ purification", ("purified",), None, "", "purified"),
        ("+ ALU, input reading", ("input", "alu"), None, "", "input"),
        ("+ ALU, reconstruction", ("reconstruction", "alu"), alu, "f(D(E))", "reconstruction"),
        ("+ ALU, rec., if all were flagged", ("reconstruction", "all flagged"), None, "", ""),
    ):
        if protocol == "standard":
            rows.append([label, *standing(cells, path), _union(results, key, reading)])
            continue
        if numbers:
            rows.append(_said(label, numbers, on))
        shown = [percent(share(at(cell, path))) if cell else "–" for cell in cells.values()]
        rows.append([f"{label}: here" if numbers else label, *shown])
    return rows


def _said(label: str, numbers: tuple[float, float, float], on: str) -> list[str]:
    """The paper's clean, PGD-20 and AutoAttack figures, under attacks on what they differentiate."""
    there = {"clean": numbers[0], f"pgd-20 on {on}": numbers[1], f"autoattack on {on}": numbers[2]}
    return [f"{label}: the paper", *(said_by_the_paper(there.get(column)) for column in COLUMNS2)]


def standing(cells: dict[str, Any], path: tuple[str, ...]) -> list[str]:
    """Right clean and right attacked; fewer images are the first of more."""
    clean = at(cells["clean"] or {}, path if path[-1] != "all flagged" else (path[0], "alu"))
    made = []
    for cell in cells.values():
        attacked = at(cell, path) if cell else ""
        made.append(percent(share(both(clean[: len(attacked)], attacked))) if attacked and clean else "–")
    return made


def _union(results: Results, key: str, reading: str) -> str:
    """Every attack together: the adaptive suite, and the table's own attacks on the same images."""
    found = results.found("table2", f"{key}/adaptive, {reading}") if reading else None
    return percent(share(results.standing(key, reading))) + results.unfinished(key, reading) if found else "–"


def _budgets(results: Results, dataset: str) -> str:
    """Which suite each classifier met, as a sentence."""
    met: dict[str, list[str]] = {}
    for method, name in NAMES.items():
        found = results.found("table2", f"{dataset}-{method}/adaptive, reconstruction")
        if found:
            met.setdefault(found.get("budget", "quick"), []).append(name)
    return "".join(f" Budget {budget}: {', '.join(names)}." for budget, names in met.items())


def at(found: dict[str, Any], path: tuple[str, ...]) -> str:
    """The digits at a place of a cell; none where there is no such place."""
    value: Any = found
    for key in path:
        value = value.get(key, "") if isinstance(value, dict) else ""
    return str(value)


def _empty(title: str, why: str) -> Table:
    return Table(title, ["", ""], [["", why]])
