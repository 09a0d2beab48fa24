"""What was measured, beside the paper: one page, text for a terminal, and the claims as Markdown. No torch here."""

from __future__ import annotations

import re
import textwrap
from html import escape
from pathlib import Path
from typing import Any

from alu.paper.catalog import EXPERIMENTS, verdicts
from alu.paper.claims import FAILS, FEW, HOLDS, OBLIVIOUS, UNKNOWN, Claim, Status, Verdict
from alu.paper.store import Results
from alu.report import page
from alu.report.page import table

WORDS = {
    "f": "the classifier; it gives a number, the logit, for each class",
    "D(E(x))": "the VAE's reconstruction of an image x: encoder, then decoder",
    "N": "how many steps move the latent code so that the decoder's output comes nearer to the image",
    "purified": "the answer of f after those steps, without detector and rule",
    "score, flagged": "the score is the sum of the absolute changes of all logits; an image is flagged if its score is "
    "above a threshold that 0.5 % of clean images exceed",
    "ALU, deployed": "the class whose logit rose most if the image is flagged, else the one with the highest logit "
    "after the steps",
    "if all were flagged": "the class whose logit rose most, for every image, as in the paper's plots of N and rate",
    "input and reconstruction reading": "what the logits after the steps are compared with: those of the image itself, "
    "or those of its reconstruction; the paper can be read both ways",
    "oblivious, surrogate, adaptive": "attackers who know only f; who differentiate f(D(E)), which the paper calls "
    "white-box; who know the whole defence",
    "decoy, stealth": "attacks that know the rule: decoy makes another class rise most, stealth stays below the "
    "threshold",
    "paper protocol, standard protocol": "right on attacked images, whatever was answered clean; right clean and right "
    "under attack",
    "sse, mse, norm": "what the steps minimise: the sum of squared errors, their mean, or the root of the sum; by "
    "plain gradient descent (gd) or Adam",
}
"""For a reader who begins here."""
PLURAL = {
    HOLDS: ("holds", "hold"),
    OBLIVIOUS: (str(OBLIVIOUS), OBLIVIOUS.replace("holds", "hold", 1)),
    FAILS: ("does not hold", "do not hold"),
    FEW: ("had too few images to tell", "had too few images to tell"),
    UNKNOWN: ("is not measured yet", "are not measured yet"),
}
"""What became of one claim, and of several."""
MARKS = {HOLDS: "passed", OBLIVIOUS: "partly", FAILS: "failed"}
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
    lines = [
        "# The paper's claims, tested",
        "",
        "Generated from `results/` by `python tools/write_documents.py`; a test fails if this disagrees with them.",
        "Rules that were set or changed after seeing the figures are listed in the [lab log](lab-log.md).",
        "Percentages have their 95 % interval and n. The threat model is L∞ with eps 8/255, unless stated. The words:",
        "",
        *(f"- **{word}**: {means}" for word, means in WORDS.items()),
        "",
    ]
    for claim, verdict in verdicts(results):
        lines += [f"## {claim.name}", "", f"The paper: {claim.says}", ""]
        lines += [f"**{verdict.status.capitalize()}.**", "", *(f"- {line}" for line in verdict.lines), ""]
        lines += [verdict.rule, ""] if verdict.rule else []
        lines += [f"Measured by {' and '.join(f'`alu reproduce {name}`' for name in verdict.experiments)}.", ""]
    return "\n".join(lines)


def text(results: Results, name: str) -> str:
    """One experiment for a terminal: its tables, what became of its claims, and how many of its cells are empty."""
    experiment, known = EXPERIMENTS[name], results.experiments[name]
    remarks = [experiment.differs, known.get("leaves out", "")]
    parts = [f"== {experiment.title} ==", *(textwrap.fill(remark, 118) for remark in remarks if remark)]
    parts += filter(None, (panel.text() for panel in experiment.view(results)))
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


def write(results: Results, path: Path) -> Path:
    """Write the page; returns its path."""
    page.write(path, html(results))
    return path


def html(results: Results) -> str:
    """The whole page: in short, then claim by claim, then each experiment; the same results give the same page."""
    card = [CARD] if CARD in results.experiments else []
    others = [name for name in EXPERIMENTS if name in results.experiments and name != CARD]
    links = " ".join(f'<a href="#{name}">{name}</a>' for name in ("summary", *card, "words", "claims", *others))
    body = [
        "<h1>Adversarial Logit Update: the paper and what was measured here</h1>",
        "<p>Every number measured here has its 95 % interval and n; grey points and rows named “the paper” are the "
        "paper's own. Its attackers differentiate f or f(D(E)); an adaptive attacker knows the whole defence.</p>",
        f"<nav>{links}</nav>",
        *_summary(results),
        *(part for name in card for part in _section(results, name)),
        _glossary(),
        *_claims(results),
        *(part for name in others for part in _section(results, name)),
    ]
    return page.page("ALU: the paper, measured again", body)


def _summary(results: Results) -> list[str]:
    """What became of the claims at one look, each a link to its evidence."""
    groups = []
    for words, some in by_status(results).items():
        names = "".join(f'<li><a href="#{_anchor(claim)}">{escape(claim.name)}</a></li>' for claim, _ in some)
        mark = MARKS.get(some[0][1].status, "none")
        groups.append(f'<section><h3 class="{mark}">{escape(words)}</h3><ul>{names}</ul></section>')
    return [
        '<h2 id="summary">In short</h2>',
        f"<p>Of {len(verdicts(results))} claims of the paper:</p>",
        f'<div class="short">{"".join(groups)}</div>',
    ]


def _anchor(claim: Claim) -> str:
    """Where a claim stands on the page."""
    return "claim-" + re.sub(r"[^a-z0-9]+", "-", claim.name.lower()).strip("-")


def _glossary() -> str:
    """What the words mean."""
    meant = "".join(f"<dt>{escape(word)}</dt><dd>{escape(means)}</dd>" for word, means in WORDS.items())
    return f'<h2 id="words">Words</h2><dl class="facts">{meant}</dl>'


def _claims(results: Results) -> list[str]:
    """Every claim with its verdict and its evidence."""
    rows = [
        [
            f'<strong id="{_anchor(claim)}">{escape(claim.name)}</strong><small>{escape(claim.says)}</small>',
            _mark(verdict.status),
            _evidence(results, verdict),
        ]
        for claim, verdict in verdicts(results)
    ]
    about = f"{len(rows)} claims of the paper. Each verdict follows from the rule that stands below its figures. "
    about += "Rules that were set or changed after seeing the figures are listed in docs/lab-log.md."
    cells = table(["the paper says", "verdict", "evidence"], rows)
    return [
        '<h2 id="claims">Claims</h2>',
        f"<p>{about}</p>",
        cells.replace("<table>", '<table class="claims">'),
    ]


def _evidence(results: Results, verdict: Verdict) -> str:
    """Figures one below the other, what was asked for, and where all of it is shown, if it has been measured."""
    figures = "".join(f"<li>{escape(line)}</li>" for line in verdict.lines)
    linked = {name: f'<a href="#{name}">{name}</a>' for name in results.experiments}
    links = " ".join(linked.get(name, name) for name in verdict.experiments)
    return f'<ul class="figures">{figures}</ul><small>{escape(verdict.rule)} {links}</small>'


def _mark(status: Status) -> str:
    return f'<span class="{MARKS.get(status, "none")}">{escape(status)}</span>'


def _section(results: Results, name: str) -> list[str]:
    """One experiment: its claims, what differs from the paper, its panels, and where its numbers come from."""
    experiment, known = EXPERIMENTS[name], results.experiments[name]
    claims = [
        f"<li>{escape(claim.says)} {_mark(verdict.status)}</li>" for claim, verdict in experiment.verdicts(results)
    ]
    empty = sorted(set(_reasons(known)))
    return [
        f'<h2 id="{name}">{escape(experiment.title)}</h2>',
        *([f'<ul class="verdicts">{"".join(claims)}</ul>'] if claims else []),
        f"<p>{escape(experiment.differs)}</p>",
        *(panel.html() for panel in experiment.view(results)),
        *([f'<p class="soft">Empty cells: {escape(" ".join(empty))}</p>'] if empty else []),
        f'<p class="soft">{escape(_origin(known, experiment.why))}</p>',
    ]


def _origin(known: dict[str, Any], why: str) -> str:
    """Where an experiment's numbers come from."""
    form = "Quick form: a first look, too few images for a conclusion. " if known["quick"] else ""
    form += f"{known['leaves out']} " if known.get("leaves out") else ""
    sizes = ", ".join(f"{key} {value}" for key, value in known["sizes"].items())
    commits = sorted({record["commit"] for record in known["cells"].values() if "commit" in record})
    return f"{form}Sizes: {sizes}. Seed {known['seed']}; commits {', '.join(commits) or 'none'}. Why these sizes: {why}"
