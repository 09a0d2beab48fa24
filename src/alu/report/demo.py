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
}
KNOWLEDGE = {
    "clean": "no attack",
    "pgd": "oblivious: knows the classifier only",
    "decoy": "adaptive: knows the rule",
    "surrogate": "surrogate: knows classifier and VAE",
}
COLOUR = {"clean": "clean", "pgd": "oblivious", "decoy": "adaptive", "surrogate": "surrogate"}
BARE, DEFENDED = "classifier alone", "VAE + ALU (input)"
"""Rows of a result that the sentence compares."""
INFORMED = ("decoy", "surrogate")
"""Columns whose attacker knows something of the defence."""
PICTURED = {
    "clean": "No attack",
    "pgd": "Attacker does not know the defence",
    "decoy": "Attacker knows the defence",
}
"""Columns of the pictures, in this order, and their titles."""
PICTURES = {"adversarial": "image", "perturbation": "perturbation", "purified": "purified"}
"""Pictures of an example, and what they are called on the page."""


def verdict(result: dict[str, Any]) -> str:
    """What came of the demo, in one sentence: pictures kept correct with and without the defence.

    A picture is kept if it is correct without the attack and under it. An attacker who knows the defence uses whichever
    attack works on this picture.
    """
    return "".join(part if isinstance(part, str) else part.text for part in verdict_parts(result))


def verdict_parts(result: dict[str, Any]) -> list[Part]:
    """The same with its figures."""
    columns = {row["name"]: row["columns"] for row in result["rows"]}
    kept, bare = (_kept(columns[name], "clean", "pgd") for name in (DEFENDED, BARE))
    informed = _kept(columns[DEFENDED], "clean", *INFORMED)
    n = len(columns[DEFENDED]["pgd"]["correct"])
    return [
        "Against an attacker who does not know the defence, it keeps ", count("demo/verdict/kept", kept), " of ",
        count("demo/verdict/n", n), " pictures correct (the bare classifier: ", count("demo/verdict/bare", bare),
        "); against an attacker who knows it, ", count("demo/verdict/informed", informed), ".",
    ]  # fmt: skip


def _kept(columns: dict[str, Any], *names: str) -> int:
    """How many pictures are correct in every one of these columns."""
    return sum(all(bits) for bits in zip(*(columns[name]["correct"] for name in names), strict=True))


def share_of(row: dict[str, Any], column: str, what: str = "correct") -> Share | None:
    """The share of a column's images that are correct or flagged, or None where there is no detector."""
    bits = row["columns"][column][what]
    return None if bits is None else Share(sum(bits), len(bits))


def row_title(row: dict[str, Any]) -> str:
    """The name under which a row is shown."""
    return "bare classifier" if row["name"] == BARE else str(row["name"])


def terminal_cell(row: dict[str, Any], column: str) -> str:
    """Correct answers for the terminal, short enough for 80 columns."""
    given = share_of(row, column)
    if given is None:
        return ""
    low, high = given.interval
    return f"{100 * given.value:.1f} [{100 * low:.0f}, {100 * high:.0f}]"


def write_page(result: dict[str, Any], path: Path) -> None:
    """Write the page of a demo result."""
    page.write(path, html(result))


def html(result: dict[str, Any]) -> str:
    """The page as text."""
    return page.render(
        "demo.html.j2",
        title="alu demo: where the defence works, and where it does not",
        verdict=verdict_parts(result),
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
    """Correct answers with their interval, and flagged images where there is a detector."""
    given = share_of(row, column)
    correct, flagged = share(key, given), share(f"{key}/flagged", share_of(row, column, "flagged"))
    if given is None or correct is None:
        return NONE
    kind = "high" if given.value >= 0.7 else "low" if given.value <= 0.3 else ""
    flags: list[list[Part]] = [[flagged.percent, " flagged"]] if flagged is not None else []
    return Cell(correct.amount, [correct.interval, *flags], kind)


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
