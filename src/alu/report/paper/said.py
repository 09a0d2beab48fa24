"""What a terminal is told of a result."""

from __future__ import annotations

import textwrap

from alu.report.paper.claims import CLAIMS
from alu.report.paper.results import Results
from alu.report.paper.views import VIEWS


def said(results: Results, name: str) -> str:
    """The tables of one experiment, what became of its claims, and how many of its cells are empty."""
    result = results.experiments[name]
    shown = [part.text() for part in VIEWS[name](results)]
    empty = [record["absent"] for record in result["cells"].values() if "absent" in record]
    differs = [textwrap.fill(result[key], 118) for key in ("differs", "leaves out") if result.get(key)]
    lines = [f"== {result['title']} ==", *differs, *(text for text in shown if text)]
    told = [(claim, claim.verdict(results)) for claim in CLAIMS if claim.experiment == name]
    if told:
        lines.append("\n".join(f"The paper: {claim.says} {verdict.verdict.capitalize()}." for claim, verdict in told))
    if empty:
        lines.append(f"{len(empty)} of {len(result['cells'])} cells are empty: {empty[0]}")
    return "\n\n".join(lines) + "\n"
