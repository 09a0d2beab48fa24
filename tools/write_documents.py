"""Write what the repository says from its results and cards: claims, bundled models, the README's summary, the page.

python tools/write_documents.py [ROOT]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from alu.errors import AluError, StorageError, UsageError
from alu.models.cards import as_figure
from alu.paper import advice, find, robust_base, store, table2, threats, verdicts
from alu.paper.base import System
from alu.paper.page import by_status, html, markdown
from alu.paper.store import Results
from alu.paper.views import Table
from alu.report import page
from alu.report.charts import standalone
from alu.storage import read_json

PICTURE = """Table 2 on CIFAR-10, percent right: ALU as the paper reports it (grey), here under the same attack (blue,
paper protocol), here under every attack together (red, standard protocol), and the classifier without ALU under both
(black).

![ALU on CIFAR-10: the paper, and what was measured here](docs/table2.svg)"""
GALLERY = {
    "threats": ("threats", "What each attacker leaves"),
    "table1": ("table1", "Right answers under each attack"),
    "table2-cifar100": ("table2", "cifar100"),
    "table2-tiny-imagenet": ("table2", "tiny-imagenet"),
    "table3": ("table3", "CIFAR-10: test-time methods"),
    "score-input": ("histogram", "Score sum |Δ|, input reading"),
    "score-reconstruction": ("histogram", "Score sum |Δ|, reconstruction reading"),
    "steps-accuracy": ("iterations", "Accuracy against the latent steps N: cifar10-unified"),
    "steps-detection": ("iterations", "Detection against the latent steps N: cifar10-unified"),
    "rate-accuracy": ("learning-rate", "Attacked, if all were flagged: cifar10-unified"),
    "rate-detection": ("learning-rate", "Attacked and flagged: cifar10-unified"),
    "distance": ("convergence", "Distance of the purified image, pgd-20 on f"),
    "swapped": ("artefacts", "E2"),
    "controls": ("artefacts", "E4"),
}
"""Pictures of docs/gallery.md: the experiment, and how the chart's title begins."""
WEIGHTS, ROBUST = "src/alu/models/weights", "robust accuracy"
"""Where the cards are, and how their figures from `robust-base` begin."""
ADVICE, RESULTS = "what to use", "from results"
"""Names of the README's generated parts, which stand between <!-- NAME: begin --> and <!-- NAME: end -->."""


def documents(root: Path) -> dict[str, str]:
    """What each generated file of a checkout should hold, by its path below `root`."""
    results, weights = Results.open(root / "results"), root / WEIGHTS
    cards = {name: card_with_base(results, read_json(weights / f"{name}.json")) for name in robust_base.BASES}
    return {
        "docs/claims.md": markdown(results),
        "docs/table2.svg": table2.summary(results),
        **{f"{WEIGHTS}/{name}.json": json.dumps(card, indent=2) + "\n" for name, card in cards.items()},
        "docs/zoo.md": bundled_models(weights, cards),
        **{f"docs/gallery/{name}.svg": picture(results, *chosen) for name, chosen in GALLERY.items()},
        "README.md": _readme(root, {ADVICE: what_to_use(results, root / "bench/results"), RESULTS: summary(results)}),
        "results/paper.html": html(results),
    }


def card_with_base(results: Results, card: dict[str, Any]) -> dict[str, Any]:
    """A robust classifier's card with what `robust-base` measured in place of what it said of that before."""
    stands = robust_base.standing(results, card["name"])
    if not stands:
        return card
    figures = {name: value for name, value in card["figures"].items() if not name.startswith(ROBUST)}
    origin, dataset = figures.pop("measured with"), System(card["name"], "").dataset
    for radius in robust_base.RADII:
        share = store.ones(stands[radius])
        figures[f"{ROBUST}, {radius}/255"] = as_figure(share, f"{share.n:,} of {dataset} test")
    return {**card, "figures": {**figures, "measured with": origin}}


def picture(results: Results, experiment: str, title: str) -> str:
    """The first chart of an experiment whose title begins so, as a file of its own."""
    panels = [panel for panel in find(experiment).view(results) if not isinstance(panel, Table)]
    chart = next(chart for panel in panels for chart in panel if chart.title.startswith(title))
    return standalone(chart.drawing, chart.legend)


def what_to_use(results: Results, bench: Path) -> str:
    """The README's first screen: who attacks you, what to use, what it costs and what it keeps."""
    table = advice.table(results, {path.stem: read_json(path) for path in sorted(bench.glob("*.json"))})
    return "\n".join([*_markdown(table), "", table.note])


def summary(results: Results) -> str:
    """The README's part: the threat-model card, and what became of the claims."""
    lines = []
    if "threats" in results.experiments:
        card = threats.card(results)
        lines += [f"{card.title}:", "", *_markdown(card), ""]
    groups, total = "; ".join(by_status(results)), len(verdicts(results))
    lines.append(f"Of {total} claims of the paper: {groups} ([each with its evidence](docs/claims.md)).")
    if "table2" in results.experiments:
        lines += ["", PICTURE]
    return "\n".join(lines)


def _markdown(table: Table) -> list[str]:
    rows = [list(table.header), ["---"] * len(table.header), *map(list, table.rows)]
    return ["| " + " | ".join(row) + " |" for row in rows]


def bundled_models(folder: Path, known: dict[str, Any]) -> str:
    """docs/zoo.md: every card's figures, its data and the command that trains it again; some cards are `known`."""
    lines = [
        "# Bundled models",
        "",
        "Generated from the cards in `src/alu/models/weights`. Robust accuracy, under the strongest attacks that a",
        "classifier meets here, is from `alu reproduce robust-base`; `make slow` measures every other figure again.",
        'Load one with `alu.models.load("cifar10-standard")`; its card is `.card`. Weights are half precision, MIT.',
        "",
        "| model | task | MB | first figure of its card | under PGD-20, 8/255 |",
        "|---|---|---|---|---|",
    ]
    paths = sorted(folder.glob("*.json"))
    cards = [known.get(path.stem) or read_json(path) for path in paths]
    for path, card in zip(paths, cards, strict=True):
        lines.append(_model_row(card, path.with_suffix(".safetensors").stat().st_size))
    lines.append("")
    for card in cards:
        lines += _card(card)
    return "\n".join(lines)


def _model_row(card: dict[str, Any], size: int) -> str:
    """One line of the overview: the figure that a card begins with, and what stands under attack."""
    shares = {figure: value for figure, value in card["figures"].items() if isinstance(value, dict) and "n" in value}
    first = next(iter(shares))
    attacked = shares.get("PGD-20, 8/255")
    stands = "–" if attacked is None else f"{attacked['percent']} % of {attacked['n']}"
    name, figure = card["name"], f"{first}: {shares[first]['percent']} % of {shares[first]['n']:,}"
    return f"| [{name}](#{name}) | {card['task']} | {size / 1e6:.1f} | {figure} | {stands} |"


def _card(card: dict[str, Any]) -> list[str]:
    architecture = dict(card["architecture"])
    name = architecture.pop("name")
    settings = ", ".join(f"{key} {value}" for key, value in architecture.items() if not isinstance(value, list | tuple))
    lines = [f"## {card['name']}", "", f"A {card['task']}: `{name}` ({settings}). Trained on {card['data']}:", ""]
    lines += ["```text", card["command"], "```", ""]
    lines += [f"How it differs from its paper: {card['differs']}", ""] if card.get("differs") else []
    lines += ["| figure | value | n | measured on |", "|---|---|---|---|"]
    for figure, value in card["figures"].items():
        if isinstance(value, dict) and "percent" in value:
            low, high = value["interval"]
            lines.append(f"| {figure} | {value['percent']} % [{low}, {high}] | {value['n']:,} | {value['on']} |")
        elif figure != "measured with":
            lines.append(f"| {figure} | {value} | | |")
    origin = card["figures"]["measured with"]
    return [*lines, "", f"Commit {origin['commit']}, seed {origin['seed']}, torch {origin['torch']}.", ""]


def _readme(root: Path, parts: dict[str, str]) -> str:
    """The README with its generated parts replaced."""
    text = (root / "README.md").read_text(encoding="utf-8")
    for name, part in parts.items():
        marks = [f"<!-- {name}: {word} -->" for word in ("begin", "end")]
        before, begin, rest = text.partition(marks[0])
        _, end, after = rest.partition(marks[1])
        if not begin or not end:
            raise StorageError(f"{root / 'README.md'} has no lines {marks[0]} and {marks[1]}; text goes between them.")
        text = f"{before}{begin}\n{part}\n{end}{after}"
    return text


def main(words: list[str]) -> None:
    """Write below the folder that is named, or here; errors are one sentence on standard error."""
    root = Path(words[0] if words else ".")
    try:
        if not (root / "results").is_dir() or not (root / "README.md").is_file():
            raise UsageError(f"{root.resolve()} is no checkout of alu: it has no README.md beside a folder results.")
        for name, text in documents(root).items():
            page.write(root / name, text)
            sys.stdout.write(f"{root / name}\n")
    except AluError as error:
        sys.stderr.write(f"alu: {error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main(sys.argv[1:])
