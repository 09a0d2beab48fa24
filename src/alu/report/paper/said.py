"""What a terminal is told of a result."""

from __future__ import annotations

from typing import Any

from alu.report.paper.results import Results
from alu.report.paper.views import VIEWS


def said(result: dict[str, Any]) -> str:
    """The tables of one result, and how many of its cells are empty."""
    name = str(result["experiment"])
    shown = [part.text() for part in VIEWS[name](Results({name: result}))]
    empty = [record["absent"] for record in result["cells"].values() if "absent" in record]
    lines = [f"== {result['title']} ==", *(text for text in shown if text)]
    if empty:
        lines.append(f"{len(empty)} of {len(result['cells'])} cells are empty: {empty[0]}")
    return "\n\n".join(lines) + "\n"
