"""The demo's page: what came of it in one sentence, three pictures under attack, then the table and the scores."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from alu.report.charts import Group, bars, chart, histogram
from alu.report.page import page, table, write
from alu.stats import Share

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


ALONE, DEFENDED = "classifier alone", "VAE + ALU (input)"
INFORMED = ("decoy", "surrogate")
"""Columns whose attacker knows something of the defence."""
SHOWN = {
    "clean": "No attack",
    "pgd": "Attack not knowing the defence",
    "decoy": "Attack knowing the defence",
}
"""Columns of the pictures, in this order, and their titles."""
SIDE_BY_SIDE = "display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,19rem),1fr));gap:0 1.8rem"
THREE_PICTURES = "grid-template-columns:repeat(3,1fr)"
WHOLE_ROW = "grid-column:1/-1"


def verdict(result: dict[str, Any]) -> str:
    """What came of the demo, in one sentence: pictures kept right, against attackers who know the defence or do not.

    A picture is kept that is right without the attack and under it; an attacker who knows the defence takes whichever
    attack works on this picture.
    """
    columns = {row["name"]: row["columns"] for row in result["rows"]}
    kept, bare = _kept(columns[DEFENDED], "clean", "pgd"), _kept(columns[ALONE], "clean", "pgd")
    informed = _kept(columns[DEFENDED], "clean", *INFORMED)
    n = len(columns[DEFENDED]["pgd"]["correct"])
    return (
        f"Against an attacker who does not know it, the defence keeps {kept} of {n} pictures right where the "
        f"classifier alone keeps {bare}; against one who does, it keeps {informed}."
    )


def _kept(columns: dict[str, Any], *names: str) -> int:
    """How many pictures are right in every one of these columns."""
    return sum(all(bits) for bits in zip(*(columns[name]["correct"] for name in names), strict=True))


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
        f"<p><strong>{verdict(result)}</strong></p>",
        f'<p class="soft">CIFAR-10, {setting["n"]} test images, L∞ eps {setting["eps"]}. A picture is kept if '
        "it is right without the attack and under it. One who knows the defence has the last two attacks of the "
        "table.</p>",
        "<h2>Three pictures</h2>",
        '<p class="soft">Attacked by PGD-20, and by PGD-20 called with a wrong label. Logits before purification in '
        "grey, after it in blue; the true class in bold. Perturbations are magnified: grey is no change, black and "
        "white are ±8/255.</p>",
        *_pictures(result["examples"], result["classes"]),
        "<h2>All pictures</h2>",
        "<p>A VAE re-synthesises each picture and the classifier answers before and after. If the logits moved more "
        "than they do on all but 0.5 % of clean pictures, the picture is flagged and the answer is the class whose "
        "logit <em>rose</em> most (ALU); otherwise it is the highest logit afterwards.</p>",
        table(header, rows),
        '<p class="soft">95 % Wilson intervals.</p>',
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


def _pictures(examples: list[dict[str, Any]], classes: list[str]) -> list[str]:
    """One row for each picture: as it is, and under both attacks."""
    parts = []
    for start in range(0, len(examples), len(SHOWN)):
        some = examples[start : start + len(SHOWN)]
        shown = "".join(_example(example, classes) for example in some)
        name = classes[some[0]["true"]]
        article = "An" if name[0] in "aeiou" else "A"
        parts.append(f'<h3>{article} {escape(name)}</h3><div style="{SIDE_BY_SIDE}">{shown}</div>')
    return parts


def _example(example: dict[str, Any], classes: list[str]) -> str:
    before, true = example["before"], example["true"]
    alone = before.index(max(before))
    pictures = "".join(
        f'<figure><img src="{example[key]}" alt="{caption}"><figcaption>{caption}</figcaption></figure>'
        for key, caption in (("image", "image"), ("perturbation", "perturbation"), ("purified", "purified"))
    )
    chart = bars(classes, before, example["after"], true)
    return (
        f'<div class="example" style="{THREE_PICTURES}"><p class="say"><strong>{SHOWN[example["column"]]}</strong><br>'
        f"Classifier alone: {_answer(alone, true, classes)}, defence: {_answer(example['answer'], true, classes)} "
        f"({'flagged' if example['flagged'] else 'not flagged'}, score {example['score']:.1f})</p>"
        f'{pictures}<div style="{WHOLE_ROW}">{chart}</div></div>'
    )


def _answer(label: int, true: int, classes: list[str]) -> str:
    return f'<span class="{"high" if label == true else "low"}">{escape(classes[label])}</span>'
