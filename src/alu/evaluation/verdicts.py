"""Verdicts: whether a defence helps, harms, or makes no clear difference to the bare classifier. No torch here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from alu.evaluation import metrics
from alu.evaluation.result import Answers, AttackRecord, Result
from alu.stats import Share, sign_test

SIGNIFICANT = 0.05
"""Below this p-value two figures differ."""
WHO = {
    "adaptive": "Against an attacker who knows it",
    "surrogate": "Against an attacker who knows only its purifier",
    "oblivious": "Against an attacker who does not know it",
    "clean": "Without an attack",
}
"""The attackers, the one who knows most first."""
WHAT = {
    "helps": "this defence helps",
    "harms": "this defence makes things worse",
    "unclear": "this defence cannot be told apart from no defence",
}
Formatter = Callable[[str, float, str], str]
"""Name, value and text of a figure -> how it is written, for pages that mark their figures."""


@dataclass(frozen=True)
class Verdict:
    """The defence beside the bare classifier for one attacker, on the same images."""

    level: str
    """"adaptive", "surrogate", "oblivious", or "clean": no attack."""
    defended: Share
    """Images that the defence keeps: answered correctly or, under attack where the rule rejects, not wrongly."""
    bare: Share
    """Images that the bare classifier keeps: answered correctly."""
    only_defended: int
    """Images that only the defence keeps."""
    only_bare: int
    p: float
    """Exact two-sided p-value that the two are equally good, from the images that only one of them keeps."""
    verdict: str
    """"helps", "harms" or "unclear"."""
    right: Share
    """Images that the defence answers correctly."""
    rejected: Share | None = None
    """Clean images that are rejected, where the rule rejects; `defended` then counts rejected images as kept."""
    at_most: tuple[bool, bool] = (False, False)
    """Whether the figures of defence and bare classifier are upper bounds."""


def verdicts(result: Result) -> list[Verdict]:
    """One for each attacker with at least one attack that ran, the one who knows most first; none for a bare model.

    Both sides are attacked equally hard: by the same images where the attacker does not know the defence, and each by
    the attacks that know it best where he does. The surrogate attacks add nothing against the bare classifier.
    """
    if not result.clean.bare:
        return []
    return [
        _verdict(result, level)
        for level in WHO
        if level == "clean" or (_ran(result, level) and (level != "adaptive" or result.bare is not None))
    ]


def sentence(verdict: Verdict, formatted: Formatter = lambda name, value, text: text) -> str:
    """A verdict in words, its figures written by `formatted`."""

    def percent(name: str, share: Share, at_most: bool = False) -> str:
        return ("at most " if at_most else "") + formatted(name, share.value, f"{100 * share.value:.1f} %")

    attacked, rejects = verdict.level != "clean", verdict.rejected is not None
    counting = ", counting rejected images as kept" if attacked and rejects else ""
    bare = percent("bare", verdict.bare, verdict.at_most[1])
    defended = percent("defended", verdict.defended, verdict.at_most[0])
    n = formatted("n", verdict.bare.n, str(verdict.bare.n))
    p = formatted("p", verdict.p, f"= {verdict.p:.3f}" if verdict.p >= 0.001 else "< 0.001")
    words = (
        f"{WHO[verdict.level]}, {WHAT[verdict.verdict]}{counting}: bare {bare}, defended {defended} (n = {n}, p {p})."
    )
    if attacked and rejects:
        words += f" Correct answers only: defended {percent('right', verdict.right)}."
    if verdict.rejected is not None:
        words += f" Clean images rejected: {percent('rejected', verdict.rejected)}."
    return words


def sentences(result: Result, write: Callable[[Verdict], str] = sentence) -> list[str]:
    """All verdicts in words, each written by `write`."""
    lines = [write(verdict) for verdict in verdicts(result)]
    if lines and result.bare is None and _ran(result, "adaptive"):
        unknown = "it is not known whether this defence helps: the bare classifier was not attacked by itself."
        lines.insert(0, f"{WHO['adaptive']}, {unknown}")
    return lines


def bare_kept(result: Result, level: str) -> set[int]:
    """Images that the bare classifier answers correctly, clean and under every attack that this attacker has on it."""
    kept = _correct(result, result.clean)
    if level != "clean":
        for record in _records(result, ("oblivious",)):
            kept -= set(record.answers.images) - _correct(result, record.answers)
    if level == "adaptive" and result.bare is not None:
        kept &= {image for image, value in metrics.worst(result.bare).items() if value == metrics.CORRECT}
    return kept


def bare_share(result: Result) -> tuple[Share, bool]:
    """The share of `bare_kept` under every attack on the bare classifier, and whether that is an upper bound."""
    kept = bare_kept(result, "adaptive")
    return Share(len(kept), len(result.labels)), _bare_bound(result, "adaptive", kept)


def _verdict(result: Result, level: str) -> Verdict:
    names = metrics.LEVELS.get(level, ())
    by_image = metrics.worst(result, names)
    right = {image for image, value in by_image.items() if value == metrics.CORRECT}
    # A rejected image is a loss if it is clean, and kept if it is attacked.
    rejects = _rejects(result)
    kept = {image for image, value in by_image.items() if value != metrics.WRONG} if rejects and names else right
    bare, n = bare_kept(result, level), len(by_image)
    only_defended, only_bare = len(kept - bare), len(bare - kept)
    p = sign_test(only_defended, only_bare)
    word = "unclear" if p >= SIGNIFICANT else "helps" if only_defended > only_bare else "harms"
    values = (metrics.CORRECT, metrics.REJECTED) if rejects else (metrics.CORRECT,)
    at_most = (
        metrics.bound_only(result, names, values) or (level == "adaptive" and not result.complete),
        _bare_bound(result, level, bare),
    )
    return Verdict(
        level, Share(len(kept), n), Share(len(bare), n), only_defended, only_bare, p, word, Share(len(right), n),
        metrics.rejected_clean(result) if rejects else None, at_most,
    )  # fmt: skip


def _bare_bound(result: Result, level: str, kept: set[int]) -> bool:
    """Whether an attack was not run on an image that is kept, or a required attack is missing."""
    if level == "clean":
        return False
    missed = any(not kept <= set(record.answers.images) for record in _records(result, ("oblivious",)))
    if level != "adaptive" or result.bare is None:
        return missed
    return missed or not result.bare.complete or metrics.bound_only(result.bare, metrics.LEVELS["adaptive"])


def _correct(result: Result, answers: Answers) -> set[int]:
    """Images that the bare classifier answers correctly."""
    pairs = zip(answers.images, answers.bare, strict=True)
    return {image for image, answer in pairs if answer == result.labels[image]}


def _records(result: Result, names: tuple[str, ...]) -> list[AttackRecord]:
    """Attacks of these levels that ran."""
    return [
        record
        for record in result.attacks
        if record.knowledge in names and not (record.failed and not record.answers.images)
    ]


def _ran(result: Result, level: str) -> bool:
    return bool(_records(result, (level,)))


def _rejects(result: Result) -> bool:
    every = (result.clean, *(record.answers for record in result.attacks))
    return result.subject.get("rule") == "abstain" or any(not all(answers.accepted) for answers in every)
