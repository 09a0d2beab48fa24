"""What a terminal is told of a result."""

from __future__ import annotations

import textwrap
from typing import Any

from alu.report.paper.claims import CLAIMS
from alu.report.paper.results import Results
from alu.report.paper.views import VIEWS


def said(result: dict[str, Any]) -> str:
    """The tables of one result, and how many of its cells are empty."""
    name = str(result["experiment"])
    shown = [part.text() for part in VIEWS[name](Results({name: result}))]
    empty = [record["absent"] for record in result["cells"].values() if "absent" in record]
    differs = [textwrap.fill(result["differs"], 118)] if result.get("differs") else []
    lines = [f"== {result['title']} ==", *differs, *(text for text in shown if text)]
    if name in {claim.experiment for claim in CLAIMS}:
        found = Results({name: result})
        told = [(claim, claim.verdict(found)) for claim in CLAIMS if claim.experiment == name]
        lines.append("\n".join(f"The paper: {claim.says} {verdict.verdict.capitalize()}." for claim, verdict in told))
    if empty:
        lines.append(f"{len(empty)} of {len(result['cells'])} cells are empty: {empty[0]}")
    return "\n\n".join(lines) + "\n"
