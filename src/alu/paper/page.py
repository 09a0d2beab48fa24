"""What was measured, beside the paper: one page, text for a terminal, and the claims as Markdown. No torch here."""

from __future__ import annotations

import textwrap
from typing import Any

from alu.paper import EXPERIMENTS, verdicts
from alu.paper.claims import FAILS, FEW, HOLDS, OBLIVIOUS, UNKNOWN, Claim, Verdict
from alu.paper.store import Results
from alu.paper.views import Table
from alu.report import page

PLURAL = {
    HOLDS: ("holds", "hold"),
    OBLIVIOUS: (str(OBLIVIOUS), OBLIVIOUS.replace("holds", "hold", 1)),
    FAILS: ("does not hold", "do not hold"),
    FEW: ("had too few images to tell", "had too few images to tell"),
    UNKNOWN: ("is not measured yet", "are not measured yet"),
}
"""What became of one claim, and of several."""
CARD = "threats"
"""The experiment that is shown first: what each kind of attacker leaves."""


def by_status(results: Results) -> dict[str, list[tuple[Claim, Verdict]]]:
    """The claims under what became of them, in words that begin with how many there are."""
    groups, every = {}, verdicts(results)
    for status, words in PLURAL.items():
        some = [(claim, verdict) for claim, verdict in every if verdict.status is status]
        # A limit to one reading is stated where the claim itself is shown.
        narrow = sum(verdict.limit.startswith("On ") for _, verdict in some)
        if some:
            aside = f" ({narrow} on one classifier only)" if narrow else ""
            groups[f"{len(some)} {words[len(some) > 1]}{aside}"] = some
    return groups


def markdown(results: Results) -> str:
    """docs/claims.md, generated."""
    return page.render("claims.md.j2", claims=verdicts(results))


def text(results: Results, name: str) -> str:
    """One experiment for a terminal: its tables, what became of its claims, and how many of its cells are empty."""
    experiment, known = EXPERIMENTS[name], results.experiments[name]
    remarks = [experiment.differs, known.get("leaves out", "")]
    parts = [f"== {experiment.title} ==", *(textwrap.fill(remark, 118) for remark in remarks if remark)]
    parts += [panel.text() for panel in experiment.view(results) if isinstance(panel, Table)]
    claims = [
        f"The paper: {claim.says} {verdict.status.capitalize()}." for claim, verdict in experiment.verdicts(results)
    ]
    parts += ["\n".join(claims)] if claims else []
    empty = _reasons(known)
    parts += [f"{len(empty)} of {len(known['cells'])} cells are empty: {empty[0]}"] if empty else []
    return "\n\n".join(parts) + "\n"


def _reasons(known: dict[str, Any]) -> list[str]:
    """Why cells are empty."""
    return [record["absent"] for record in known["cells"].values() if "absent" in record]


def html(results: Results) -> str:
    """The whole page; the same results give the same page. `templates/paper.html.j2` holds the words."""
    known = [name for name in EXPERIMENTS if name in results.experiments]
    return page.render(
        "paper.html.j2",
        title="ALU: the paper, measured again",
        summary=by_status(results),
        claims=verdicts(results),
        measured=known,
        card=[_section(results, name) for name in known if name == CARD],
        others=[_section(results, name) for name in known if name != CARD],
    )


def _section(results: Results, name: str) -> dict[str, Any]:
    """One experiment: what became of its claims, its panels, and where its numbers come from."""
    experiment, known = EXPERIMENTS[name], results.experiments[name]
    return {
        "name": name,
        "experiment": experiment,
        "verdicts": experiment.verdicts(results),
        "panels": experiment.view(results),
        "empty": sorted(set(_reasons(known))),
        "file": known,
        "commits": sorted({record["commit"] for record in known["cells"].values() if "commit" in record}),
    }
