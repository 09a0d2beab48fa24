"""The evaluation's page: one or several results as one self-contained file."""

from __future__ import annotations

from html import escape
from pathlib import Path

from alu.errors import UsageError
from alu.evaluation.printed import judged, stamps
from alu.evaluation.result import Result
from alu.report import page
from alu.report.bare import bare_section, first_verdicts, verdict_box
from alu.report.checks import diagnostics, origin
from alu.report.curves import abstaining, changes, strength
from alu.report.detection import detection
from alu.report.examples import examples
from alu.report.found import found
from alu.report.harmless import harmless
from alu.report.tables import attacks, paired, side_by_side, summary

STYLE = """
.verdict { list-style: none; margin: 0 0 1.2rem; padding: 0; }
.verdict li { max-width: none; padding: .5rem .9rem; margin: .3rem 0; border-left: 6px solid #a9b0bb;
  background: var(--pale); }
.verdict li:first-child { font-size: 1.2rem; font-weight: 600; line-height: 1.4; padding: .8rem 1rem; }
.verdict.several li { font-size: 1rem; font-weight: 400; padding: .5rem .9rem; }
.verdict .helps { border-color: var(--good); } .verdict .harms { border-color: var(--bad); }
.verdict .harms:first-child { color: var(--bad); }
.marked, .marked small { color: var(--bad); } .marked { font-weight: 600; }
.names td:first-child { min-width: 17rem; } td .few { color: #8a93a3; font-size: .9em; }
"""
"""What only this page needs."""


def write(results: list[Result], path: Path | str) -> None:
    """Write the page of these results; it appears whole or not at all."""
    if not results:
        raise UsageError("There is nothing to report. Give at least one result of alu evaluate.")
    for result in results:
        if not result.labels:
            raise UsageError(f"{result.subject['name']}: this result holds no image. Merge it with its other shards.")
    page.write(Path(path), html(results))


def html(results: list[Result]) -> str:
    """The page as text."""
    body: list[str] = []
    if len(results) > 1:
        body += [f"<h1>{len(results)} evaluations side by side</h1>", *_compared(results)]
    for index, result in enumerate(results):
        body += _chapter(index, result, len(results) > 1)
    title = judged(results[0]) if len(results) == 1 else "alu: evaluations side by side"
    return page.page(title, body, STYLE)


def _compared(results: list[Result]) -> list[str]:
    return [
        first_verdicts(results),
        '<p class="soft">Shares of images with 95 % Wilson intervals. Which of two is better is decided image by image '
        "(McNemar's exact test on the images that only one of them keeps right under every attack), not by whether "
        "intervals overlap.</p>",
        f'<div class="names">{side_by_side(results)}</div>',
        "<h2>Pairs on the same images</h2>",
        f'<div class="names">{paired(results)}</div>',
    ]


def _chapter(index: int, result: Result, numbered: bool) -> list[str]:
    """All about one result; keys and anchors begin with its number, and among several its title too."""
    key = f"result-{index}"
    title = (f"{index + 1}. " if numbered else "") + judged(result)
    sections = {
        "attacks": _attacks(key, result),
        "bare": bare_section(key, result),
        "harmless": harmless(key, result),
        "detector": detection(key, result),
        "strength": strength(key, result),
        "changes": changes(key, result),
        "abstain": abstaining(key, result),
        "images": examples(key, result),
        "diagnostics": diagnostics(key, result),
        "origin": origin(key, result),
    }
    marks = "".join(f'<span class="stamp">{escape(stamp)}</span>' for stamp in stamps(result))
    return [
        f'<header id="{key}">{marks}{verdict_box(key, result)}<h1>{escape(title)}</h1></header>',
        '<p class="soft">alu · every figure with its number of images and its 95 % Wilson interval</p>',
        _contents(key, [name for name, parts in sections.items() if parts]),
        f'<h2 id="{key}-found">What was found</h2>',
        found(key, result),
        f'<h2 id="{key}-summary">Summary, standard protocol</h2>',
        "<p>An image counts as right only if it is answered rightly clean <em>and</em> under every attack of the row. "
        "Who knows more may also use the attacks of those who know less, so that rows can only fall.</p>",
        summary(key, result),
        *(part for parts in sections.values() for part in parts),
    ]


def _attacks(key: str, result: Result) -> list[str]:
    return [
        f'<h2 id="{key}-attacks">Every attack</h2>',
        "<p>Attacks that were given all images are counted in both protocols: in the <strong>paper protocol</strong> "
        "whatever was answered clean, in the <strong>standard protocol</strong> only where the clean answer was right "
        "too. The others were given what earlier attacks had left standing, so a share of right answers would say "
        "nothing about them alone. Beside the defence: what the classifier without any defence, the purifier alone and "
        "a plain blur answer to the very same images. Only oblivious attacks aim at the bare classifier, and none at "
        "the blur, so that these columns are no worst case for what they show; the classifier under its own attacks "
        "has a table of its own.</p>",
        attacks(key, result),
    ]


TITLES = {
    "attacks": "Every attack",
    "bare": "Classifier alone",
    "harmless": "Harmless changes",
    "detector": "Detector",
    "strength": "Stronger attacks",
    "changes": "Logits",
    "abstain": "Abstaining",
    "images": "Images",
    "diagnostics": "Diagnostics",
    "origin": "Origin",
}


def _contents(key: str, names: list[str]) -> str:
    return "<nav>" + " ".join(f'<a href="#{key}-{name}">{TITLES[name]}</a>' for name in names) + "</nav>"
