"""Pieces of a self-contained page: one file, no script, no network, readable in print."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from alu.storage import replacing

STYLE = """
:root { --ink: #1c2430; --soft: #667; --line: #dde1e8; --good: #1a7f4b; --bad: #b3362d; --accent: #2b5fab; }
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; color: var(--ink); background: #fff;
  max-width: 62rem; margin: 2.5rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin-bottom: .3rem; } h2 { font-size: 1.2rem; margin-top: 2.4rem; }
p, li { max-width: 46rem; } .soft { color: var(--soft); font-size: .9rem; }
table { border-collapse: collapse; margin: 1rem 0; width: 100%; }
th, td { text-align: left; padding: .45rem .7rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; font-size: .9rem; } td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
td small { color: var(--soft); display: block; } .high { color: var(--good); } .low { color: var(--bad); }
.example { display: grid; grid-template-columns: repeat(3, 96px) minmax(16rem, 1fr); gap: .6rem .8rem;
  align-items: start; margin: 1.1rem 0; break-inside: avoid; border-top: 1px solid var(--line); padding-top: .9rem; }
.example figure { margin: 0; font-size: .78rem; color: var(--soft); } .example img { width: 96px; height: 96px;
  image-rendering: pixelated; display: block; border-radius: 4px; }
.example .say { grid-column: 1 / -1; margin: 0; } svg { max-width: 100%; height: auto; }
svg text { font: 11px system-ui, sans-serif; fill: var(--soft); }
@media (max-width: 40rem) { .example { grid-template-columns: repeat(3, 1fr); } .example svg { grid-column: 1 / -1; } }
@media print { body { margin: 0; max-width: none; } }
"""


def page(title: str, body: Sequence[str]) -> str:
    """A whole HTML page."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def write(path: Path, text: str) -> None:
    """Write a page atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML table; cells are HTML already."""
    head = "".join(f"<th>{cell}</th>" for cell in header)
    lines = [
        "<tr>" + "".join(f'<td class="number">{cell}</td>' if i else f"<td>{cell}</td>" for i, cell in enumerate(row))
        + "</tr>"
        for row in rows
    ]  # fmt: skip
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
