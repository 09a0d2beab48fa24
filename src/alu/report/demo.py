"""The demo's page: table, score histogram, and three images under every attack."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from alu.evaluation.intervals import Share
from alu.report.charts import Group, bars, chart, histogram
from alu.report.page import page, table, write

COLUMNS = (
    ("clean", "clean"),
    ("pgd", "PGD-20"),
    ("decoy", "PGD-20, wrong label"),
    ("surrogate", "PGD-20 through the VAE"),
)
COLOURS = {"clean": "#2b5fab", "pgd": "#b3362d", "decoy": "#c98a1b", "surrogate": "#6b4ea3"}
KNOWLEDGE = {
    "clean": "no attack",
    "pgd": "oblivious: knows the classifier only",
    "decoy": "adaptive: knows the rule",
    "surrogate": "surrogate: knows classifier and VAE",
}


def share(row: dict[str, Any], column: str, what: str = "correct") -> Share | None:
    """The share of a column's images that are correct or flagged, or None where there is no detector."""
    bits = row["columns"][column][what]
    return None if bits is None else Share(sum(bits), len(bits))


def cell(row: dict[str, Any], column: str) -> str:
    """A figure for the terminal, short enough for 80 columns."""
    found = share(row, column)
    if found is None:
        return ""
    low, high = found.interval
    return f"{100 * found.value:.1f} [{100 * low:.0f}, {100 * high:.0f}]"


def write_page(result: dict[str, Any], path: Path) -> None:
    """Write the page of a demo result."""
    write(path, page("alu demo: where the defence works, and where it does not", _body(result)))


def _body(result: dict[str, Any]) -> list[str]:
    setting = result["setting"]
    header = ["right answers, %"] + [f"{title}<br><small>{KNOWLEDGE[column]}</small>" for column, title in COLUMNS]
    rows = [[escape(row["name"]), *(_html_cell(row, column) for column, _ in COLUMNS)] for row in result["rows"]]
    facts = " · ".join(f"{escape(str(key))}: {escape(str(value))}" for key, value in setting.items())
    return [
        "<h1>Where the defence works, and where it does not</h1>",
        f'<p class="soft">CIFAR-10, {setting["n"]} test images, L∞ eps {setting["eps"]}; 95 % Wilson intervals.</p>',
        "<p>A VAE re-synthesises each picture and the classifier answers before and after. If the logits moved more "
        "than they do on all but 0.5 % of clean pictures, the picture is flagged and the answer is the class whose "
        "logit <em>rose</em> most (ALU); otherwise it is the highest logit afterwards.</p>",
        table(header, rows),
        "<p><strong>How to read it.</strong> PGD-20 pushes the true logit down; the purifier lets it rise again and "
        "ALU names it. Called with a wrong label, the same attack pushes <em>that</em> logit down, and ALU names the "
        "wrong label: an attacker who knows the rule needs nothing else. PCA, a linear projection, shows the same "
        "effect as the VAE, so no generative model is needed for it. In the reconstruction reading the logits are "
        "compared with those of the VAE's first output instead of the input's. None of these figures is a worst case: "
        "an attacker who searches against the deployed answer does at least as well as the worst column.</p>",
        "<h2>The suspicion score</h2>",
        "<p>Sum of absolute logit changes, VAE + ALU (input). Attacks on the classifier stand out; that is what the "
        "detector sees.</p>",
        _scores(result),
        "<h2>Three images</h2>",
        '<p class="soft">Logits before purification in grey, after it in blue; the true class in bold. '
        "Perturbations are magnified: grey is no change, black and white are ±8/255.</p>",
        *(_example(example, result["classes"]) for example in result["examples"]),
        "<h2>Where these numbers come from</h2>",
        f'<p class="soft">{facts}</p>',
    ]


def _scores(result: dict[str, Any]) -> str:
    names = dict(COLUMNS)
    groups = [Group(names[column], COLOURS[column], values) for column, values in result["scores"].items()]
    legend = [(group.name, group.colour) for group in groups]
    return chart("Clean and attacked images", histogram(groups, result["threshold"]), legend)


def _html_cell(row: dict[str, Any], column: str) -> str:
    found = share(row, column)
    if found is None:
        return ""
    low, high = found.interval
    mood = ' class="high"' if found.value >= 0.7 else ' class="low"' if found.value <= 0.3 else ""
    flagged = share(row, column, "flagged")
    more = f"<small>[{100 * low:.1f}, {100 * high:.1f}]</small>"
    if flagged is not None:
        more += f"<small>{100 * flagged.value:.1f} % flagged</small>"
    return f"<span{mood}>{100 * found.value:.1f}</span>{more}"


def _example(example: dict[str, Any], classes: list[str]) -> str:
    title = dict(COLUMNS)[example["column"]]
    answer, true = classes[example["answer"]], classes[example["true"]]
    mood = "high" if example["answer"] == example["true"] else "low"
    state = "flagged" if example["flagged"] else "not flagged"
    pictures = "".join(
        f'<figure><img src="{example[key]}" alt="{caption}"><figcaption>{caption}</figcaption></figure>'
        for key, caption in (("image", "image"), ("perturbation", "perturbation"), ("purified", "purified"))
    )
    chart = bars(classes, example["before"], example["after"], example["true"])
    return (
        f'<div class="example three"><p class="say"><strong>{escape(title)}</strong>: a {escape(true)}, '
        f'answered <span class="{mood}">{escape(answer)}</span> '
        f"({state}, score {example['score']:.1f})</p>{pictures}{chart}</div>"
    )
