"""The demo's page and its lines for the terminal; `templates/demo.html.j2` holds the words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alu.report import page
from alu.report.charts import COLOURS, Chart, Group, bars, histogram
from alu.report.page import NONE, Cell, Part, Row, Table, count, number, share
from alu.stats import Share

COLUMNS = {
    "clean": "clean",
    "pgd": "PGD-20",
    "decoy": "PGD-20, wrong label",
    "surrogate": "PGD-20 through the VAE",
    "everything": "knows everything",
}
KNOWLEDGE = {
    "clean": "no attack",
    "pgd": "oblivious: knows the classifier only",
    "decoy": "adaptive: knows the rule",
    "surrogate": "surrogate: knows classifier and VAE",
    "everything": "right when clean, never answered wrongly",
}
COLOUR = {"clean": "clean", "pgd": "oblivious", "decoy": "adaptive", "surrogate": "surrogate"}
BARE, DEFENDED = "classifier alone", "VAE + ALU (input)"
ROBUST, CHECKED = "robust classifier alone", "robust classifier + check"
"""Rows of a result that the verdict compares."""
MEANING = (
    "Every row is attacked on its own classifier. The last column is the share of pictures that are right when clean "
    "and that no attack made for this very row turns into a wrong answer; a refused picture is not answered wrongly."
)
PICTURED = {
    "clean": "No attack",
    "pgd": "Attacker does not know the defence",
    "decoy": "Attacker knows the defence",
}
"""Columns of the pictures, in this order, and their titles."""
PICTURES = {"adversarial": "image", "perturbation": "perturbation", "purified": "purified"}
"""Pictures of an example, and what they are called on the page."""


def verdict(result: dict[str, Any]) -> str:
    """What came of the demo, in two sentences: pictures kept correct with and without the defence, and with a check.

    A picture is kept if it is correct without the attack and under it. An attacker who knows everything uses whichever
    attack works on this picture.
    """
    return "".join(part if isinstance(part, str) else part.text for part in verdict_parts(result))


def verdict_parts(result: dict[str, Any]) -> list[Part]:
    """The same with its figures."""
    columns = {row["name"]: row["columns"] for row in result["rows"]}
    kept, bare = (_kept(columns[name], "clean", "pgd") for name in (DEFENDED, BARE))
    informed, checked, robust = (_kept(columns[name], "everything") for name in (DEFENDED, CHECKED, ROBUST))
    n = len(columns[DEFENDED]["pgd"]["correct"])
    return [
        "Against an attacker who does not know the defence, it keeps ", count("demo/verdict/kept", kept), " of ",
        count("demo/verdict/n", n), " pictures correct (the bare classifier: ", count("demo/verdict/bare", bare),
        "); against an attacker who knows everything, ", count("demo/verdict/informed", informed),
        ". Of a robust classifier behind a check, even that attacker leaves ", count("demo/verdict/checked", checked),
        " pictures that are right and never answered wrongly (without the check: ",
        count("demo/verdict/robust", robust), ").",
    ]  # fmt: skip


def _kept(columns: dict[str, Any], *names: str) -> int:
    """How many pictures are correct in every one of these columns."""
    return sum(all(bits) for bits in zip(*(columns[name]["correct"] for name in names), strict=True))


def share_of(row: dict[str, Any], column: str, what: str = "correct") -> Share | None:
    """The share of a column's images that are correct, flagged or answered; None where that is not asked: the row has
    no such column, its flags change nothing, or it answers everything."""
    bits = row["columns"].get(column, {}).get(what)
    return None if bits is None else Share(sum(bits), len(bits))


def row_title(row: dict[str, Any]) -> str:
    """The name under which a row is shown."""
    return "bare classifier" if row["name"] == BARE else str(row["name"])


def terminal_title(row: dict[str, Any]) -> str:
    """The same for the terminal, with how many clean pictures are answered by a row that refuses some."""
    answered = share_of(row, "clean", "answered")
    return row_title(row) if answered is None else f"{row_title(row)}\nanswers {100 * answered.value:.1f}"


def terminal_cell(row: dict[str, Any], column: str) -> str:
    """Correct answers for the terminal, short enough for 80 columns."""
    given = share_of(row, column)
    if given is None:
        return "–"
    low, high = given.interval
    lines = [f"{100 * given.value:.1f}", f"[{100 * low:.0f}, {100 * high:.0f}]"]
    radius = row["columns"][column].get("proven")
    return "\n".join(lines if radius is None else [*lines, f"L2, {radius:g}"])


def proves(result: dict[str, Any]) -> bool:
    """Whether a row has a proof in place of a measurement."""
    return any(row["columns"]["everything"]["proven"] is not None for row in result["rows"])


def write_page(result: dict[str, Any], path: Path) -> None:
    """Write the page of a demo result."""
    page.write(path, html(result))


def html(result: dict[str, Any]) -> str:
    """The page as text."""
    return page.render(
        "demo.html.j2",
        title="alu demo: where the defence works, and where it does not",
        verdict=verdict_parts(result),
        meaning=MEANING,
        proven=proves(result),
        setting=result["setting"],
        pictures=_pictures(result["examples"], result["classes"]),
        answers=_table(result["rows"]),
        scores=_scores(result),
    )


def _table(rows: list[dict[str, Any]]) -> Table:
    columns = ["correct answers", *(f"{title}\n{KNOWLEDGE[name]}" for name, title in COLUMNS.items())]
    shown = []
    for index, row in enumerate(rows):
        cells = [_cell(f"demo/{index}/{name}", row, name) for name in COLUMNS]
        shown.append(Row(row_title(row), cells))
    return Table(columns, shown)


def _cell(key: str, row: dict[str, Any], column: str) -> Cell:
    """Correct answers with their interval, and flagged or answered images where these are not none or all."""
    given = share_of(row, column)
    correct = share(key, given)
    if given is None or correct is None:
        return NONE
    small: list[list[Part]] = [correct.interval]
    for what in ("flagged", "answered"):
        counted = share(f"{key}/{what}", share_of(row, column, what))
        if counted is not None:
            small.append([counted.percent, f" {what}"])
    radius = row["columns"][column].get("proven")
    if radius is not None:
        small.append(["proven within L2 ", number(f"{key}/proven", radius), ", not L∞"])
    kind = "high" if given.value >= 0.7 else "low" if given.value <= 0.3 else ""
    return Cell(correct.amount, small, kind)


def _scores(result: dict[str, Any]) -> Chart:
    groups = [Group(COLUMNS[name], COLOURS[COLOUR[name]], values) for name, values in result["scores"].items()]
    legend = [(group.name, group.colour) for group in groups]
    return Chart("Clean and attacked images", histogram(groups, result["threshold"]), legend)


def _pictures(examples: list[dict[str, Any]], classes: list[str]) -> list[dict[str, Any]]:
    """One group for each picture: as it is, and under both attacks."""
    shown = [_example(f"demo/example/{index}", example, classes) for index, example in enumerate(examples)]
    groups = [shown[start : start + len(PICTURED)] for start in range(0, len(shown), len(PICTURED))]
    return [
        {"title": f"{'An' if some[0]['true'][0] in 'aeiou' else 'A'} {some[0]['true']}", "examples": some}
        for some in groups
    ]


def _example(key: str, example: dict[str, Any], classes: list[str]) -> dict[str, Any]:
    before, true, answer = example["before"], example["true"], example["answer"]
    bare = before.index(max(before))
    return {
        "title": PICTURED[example["column"]],
        "true": classes[true],
        "bare": {"name": classes[bare], "correct": bare == true},
        "defended": {"name": classes[answer], "correct": answer == true},
        "flagged": example["flagged"],
        "score": number(f"{key}/score", example["score"]),
        "pictures": [(example[name], title) for name, title in PICTURES.items()],
        "drawing": bars(classes, before, example["after"], true),
    }
