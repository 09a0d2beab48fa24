"""The bundled models as a page: every card's figures, its data and the command that trains it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alu.storage import read_json

CARDS = Path(__file__).parents[1] / "models" / "weights"


def markdown(folder: Path = CARDS) -> str:
    """docs/zoo.md, generated from the cards."""
    lines = [
        "# Bundled models",
        "",
        "Generated from the cards in `src/alu/models/weights`; `make slow` measures every figure again. Load one with",
        '`alu.models.load("cifar10-standard")`; its card is `.card`. Weights are half precision, MIT.',
        "",
        "| model | task | MB | first figure of its card | under PGD-20, 8/255 |",
        "|---|---|---|---|---|",
    ]
    paths = sorted(folder.glob("*.json"))
    for path in paths:
        lines.append(_row(read_json(path), path.with_suffix(".safetensors").stat().st_size))
    lines.append("")
    for path in paths:
        lines += _card(read_json(path))
    return "\n".join(lines)


def _row(card: dict[str, Any], size: int) -> str:
    """One line of the overview: the figure that a card begins with, and what stands under attack."""
    shares = {figure: value for figure, value in card["figures"].items() if isinstance(value, dict) and "n" in value}
    first = next(iter(shares))
    attacked = shares.get("PGD-20, 8/255")
    stands = "–" if attacked is None else f"{attacked['percent']} % of {attacked['n']}"
    name, figure = card["name"], f"{first}: {shares[first]['percent']} % of {shares[first]['n']:,}"
    return f"| [{name}](#{name}) | {card['task']} | {size / 1e6:.1f} | {figure} | {stands} |"


def _card(card: dict[str, Any]) -> list[str]:
    built = dict(card["architecture"])
    name = built.pop("name")
    settings = ", ".join(f"{key} {value}" for key, value in built.items() if not isinstance(value, list | tuple))
    lines = [f"## {card['name']}", "", f"A {card['task']}: `{name}` ({settings}). Trained on {card['data']}:", ""]
    lines += ["```text", card["command"], "```", "", "| figure | value | n | measured on |", "|---|---|---|---|"]
    for figure, value in card["figures"].items():
        if isinstance(value, dict) and "percent" in value:
            low, high = value["interval"]
            lines.append(f"| {figure} | {value['percent']} % [{low}, {high}] | {value['n']:,} | {value['on']} |")
        elif figure != "measured with":
            lines.append(f"| {figure} | {value} | | |")
    origin = card["figures"]["measured with"]
    return [*lines, "", f"Commit {origin['commit']}, seed {origin['seed']}, torch {origin['torch']}.", ""]
