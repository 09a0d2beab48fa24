"""One page with everything that was measured beside the paper: in short, then claim by claim, then each experiment."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from alu.report import page
from alu.report.page import table
from alu.report.paper import glossary
from alu.report.paper.claims import CLAIMS, Claim, facts, judged, sorted_out
from alu.report.paper.judging import FAILS, HOLDS, OBLIVIOUS, Verdict
from alu.report.paper.results import Results
from alu.report.paper.views import VIEWS

MARKS = {HOLDS: "passed", OBLIVIOUS: "partly", FAILS: "failed"}
CARD = "threats"
"""The experiment that is shown first: what each kind of attacker leaves."""


def write(results: Results, path: Path) -> Path:
    """Write the page; returns its path."""
    page.write(path, html(results))
    return path


def html(results: Results) -> str:
    """The whole page; the same results give the same page."""
    card = [CARD] if CARD in results.experiments else []
    others = [name for name in VIEWS if name in results.experiments and name != CARD]
    links = " ".join(f'<a href="#{name}">{name}</a>' for name in ("summary", *card, "words", "claims", *others))
    body = [
        "<h1>Adversarial Logit Update: the paper and what was measured here</h1>",
        "<p>Every number of ours carries its 95 % interval and n; grey points and rows named “the paper” are its own. "
        "Its attackers differentiate the classifier f or f(D(E)); an adaptive attacker knows the whole defence.</p>",
        f"<nav>{links}</nav>",
        *_short(results),
        *(part for name in card for part in _experiment(results, name)),
        _words(),
        *_claims(results),
        *(part for name in others for part in _experiment(results, name)),
    ]
    return page.page("ALU: the paper, measured again", body)


def _short(results: Results) -> list[str]:
    """What became of the claims at one look, each a link to its evidence."""
    groups = []
    for said, some in sorted_out(results).items():
        kind = MARKS.get(some[0][1].verdict, "none")
        names = "".join(f'<li><a href="#{_place(claim)}">{escape(claim.name)}</a></li>' for claim, _ in some)
        groups.append(f'<section><h3 class="{kind}">{escape(said)}</h3><ul>{names}</ul></section>')
    return [
        '<h2 id="summary">In short</h2>',
        f"<p>Of {len(CLAIMS)} claims of the paper:</p>",
        f'<div class="short">{"".join(groups)}</div>',
    ]


def _place(claim: Claim) -> str:
    """Where a claim stands on the page."""
    return "claim-" + re.sub(r"[^a-z0-9]+", "-", claim.name.lower()).strip("-")


def _words() -> str:
    """What the words mean."""
    meant = "".join(f"<dt>{escape(word)}</dt><dd>{escape(means)}</dd>" for word, means in glossary.WORDS.items())
    return f'<h2 id="words">Words</h2><dl class="facts">{meant}</dl>'


def _claims(results: Results) -> list[str]:
    rows = []
    for claim, verdict in judged(results).values():
        rows.append([
            f'<strong id="{_place(claim)}">{escape(claim.name)}</strong><small>{escape(claim.says)}</small>',
            _mark(verdict.verdict),
            _evidence(results, verdict),
        ])  # fmt: skip
    said = f"{len(CLAIMS)} claims of the paper, each judged by a rule that its evidence states. "
    said += "Rules set or changed after their figures had been seen are listed in docs/lab-log.md."
    head = ["the paper says", "verdict", "evidence"]
    return [
        '<h2 id="claims">Claims</h2>',
        f"<p>{said}</p>",
        table(head, rows).replace("<table>", '<table class="claims">'),
    ]


def _evidence(results: Results, verdict: Verdict) -> str:
    """Figures one below the other, what was asked for, and where all of it is shown, if it has been measured."""
    figures = "".join(f"<li>{escape(figure)}</li>" for figure in verdict.figures)
    shown = {name: f'<a href="#{name}">{name}</a>' for name in results.experiments}
    links = " ".join(shown.get(name, name) for name in verdict.read)
    return f'<ul class="figures">{figures}</ul><small>{escape(verdict.rule)} {links}</small>'


def _mark(verdict: str) -> str:
    kind = MARKS.get(verdict, "none")
    return f'<span class="{kind}">{escape(verdict)}</span>'


def _experiment(results: Results, name: str) -> list[str]:
    known, about = results.experiments[name], facts(results, name)
    sizes = ", ".join(f"{key} {value}" for key, value in about["sizes"].items())
    form = "Quick form: a first look, too few images for a conclusion. " if known["quick"] else ""
    form += f"{known['leaves out']} " if known.get("leaves out") else ""
    origin = (
        f"{form}Sizes: {sizes}. Seed {about['seed']}; commits {', '.join(about['commits']) or 'none'}. "
        f"Why no more: {about['why']}"
    )
    empty = sorted({record["absent"] for record in known["cells"].values() if "absent" in record})
    reasons = [f"<p>{escape(known['differs'])}</p>"] if known.get("differs") else []
    missing = [f'<p class="soft">Empty cells: {escape(" ".join(empty))}</p>'] if empty else []
    shown = [part.html() for part in VIEWS[name](results)]
    told = [(claim, claim.verdict(results)) for claim in CLAIMS if claim.experiment == name]
    verdicts = "".join(f"<li>{escape(claim.says)} {_mark(verdict.verdict)}</li>" for claim, verdict in told)
    return [
        f'<h2 id="{name}">{escape(known["title"])}</h2>',
        *([f'<ul class="verdicts">{verdicts}</ul>'] if told else []),
        *reasons,
        *shown,
        *missing,
        f'<p class="soft">{escape(origin)}</p>',
    ]
