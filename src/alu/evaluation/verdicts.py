"""Verdicts: whether a defence helps, harms, or cannot be told apart from the bare classifier. No torch here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from alu.evaluation import metrics
from alu.evaluation.result import AttackRecord, Judged, Result
from alu.stats import Share

LEVEL = 0.05
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
Shown = Callable[[str, float, str], str]
"""Name, value and text of a figure -> how it is written."""


@dataclass(frozen=True)
class Verdict:
    """The defence beside the bare classifier for one attacker, on the same images."""

    level: str
    """"adaptive", "surrogate", "oblivious", or "clean": no attack."""
    defended: Share
    """Images that the defence keeps: answered rightly or, if `resisted`, not answered wrongly."""
    bare: Share
    only_defended: int
    """Images that only the defence keeps."""
    only_bare: int
    p: float
    """Exact two-sided p-value that the two are equally good, from the images that only one of them keeps."""
    verdict: str
    """"helps", "harms" or "unclear"."""
    right: Share
    """Images that the defence answers rightly."""
    rejected: Share | None = None
    """Clean images that are rejected, where the rule rejects; `defended` then counts rejected images as kept."""
    at_most: tuple[bool, bool] = (False, False)
    """Whether the figures of defence and bare classifier are upper bounds."""


def verdicts(result: Result) -> list[Verdict]:
    """One for each attacker of whom an attack ran, the one who knows most first; none for a bare model.

    Both sides are attacked equally hard: without knowledge of the defence by the same images, and with it each by the
    attacks that know it best. What a surrogate attacker adds is of no use against the bare classifier.
    """
    if not result.clean.bare:
        return []
    return [
        _verdict(result, level)
        for level in WHO
        if level == "clean" or (_ran(result, level) and (level != "adaptive" or result.bare is not None))
    ]


def sentence(verdict: Verdict, shown: Shown = lambda name, value, text: text) -> str:
    """A verdict in words, its figures written by `shown`."""

    def percent(name: str, share: Share, at_most: bool = False) -> str:
        return ("at most " if at_most else "") + shown(name, share.value, f"{100 * share.value:.1f} %")

    attacked, rejects = verdict.level != "clean", verdict.rejected is not None
    counting = ", counting rejected images as kept" if attacked and rejects else ""
    bare = percent("bare", verdict.bare, verdict.at_most[1])
    defended = percent("defended", verdict.defended, verdict.at_most[0])
    n = shown("n", verdict.bare.n, str(verdict.bare.n))
    p = shown("p", verdict.p, f"= {verdict.p:.3f}" if verdict.p >= 0.001 else "< 0.001")
    says = (
        f"{WHO[verdict.level]}, {WHAT[verdict.verdict]}{counting}: bare {bare}, defended {defended} (n = {n}, p {p})."
    )
    if attacked and rejects:
        says += f" Right answers alone: defended {percent('right', verdict.right)}."
    if verdict.rejected is not None:
        says += f" Clean images rejected: {percent('rejected', verdict.rejected)}."
    return says


def sentences(result: Result, shown: Callable[[Verdict], str] = sentence) -> list[str]:
    """All verdicts in words."""
    found = [shown(verdict) for verdict in verdicts(result)]
    if found and result.bare is None and _ran(result, "adaptive"):
        found.insert(
            0,
            f"{WHO['adaptive']}, it is not known whether this defence helps: the bare classifier was not attacked with "
            "attacks of its own.",
        )
    return found


def bare_kept(result: Result, level: str) -> set[int]:
    """Images that the bare classifier answers rightly, clean and under every attack that this attacker has on it."""
    kept = _right(result, result.clean)
    if level != "clean":
        for record in _records(result, ("oblivious",)):
            kept -= set(record.judged.images) - _right(result, record.judged)
    if level == "adaptive" and result.bare is not None:
        kept &= {image for image, value in metrics.worst(result.bare).items() if value == metrics.CORRECT}
    return kept


def bare_share(result: Result) -> tuple[Share, bool]:
    """The share of `bare_kept` under all that is known of the bare classifier, and whether that is an upper bound."""
    kept = bare_kept(result, "adaptive")
    return Share(len(kept), len(result.labels)), _bare_bound(result, "adaptive", kept)


def _verdict(result: Result, level: str) -> Verdict:
    names = metrics.LEVELS.get(level, ())
    found = metrics.worst(result, names)
    right = {image for image, value in found.items() if value == metrics.CORRECT}
    # Clean, a rejected image is a loss; under attack it is what the rule is for.
    rejects = _rejects(result)
    standing = {image for image, value in found.items() if value != metrics.WRONG} if rejects and names else right
    bare, n = bare_kept(result, level), len(found)
    only_defended, only_bare = len(standing - bare), len(bare - standing)
    p = metrics.sign_test(only_defended, only_bare)
    word = "unclear" if p >= LEVEL else "helps" if only_defended > only_bare else "harms"
    values = (metrics.CORRECT, metrics.REJECTED) if rejects else (metrics.CORRECT,)
    at_most = (
        metrics.bound_only(result, names, values) or (level == "adaptive" and not result.complete),
        _bare_bound(result, level, bare),
    )
    return Verdict(
        level, Share(len(standing), n), Share(len(bare), n), only_defended, only_bare, p, word, Share(len(right), n),
        metrics.rejected_clean(result) if rejects else None, at_most,
    )  # fmt: skip


def _bare_bound(result: Result, level: str, kept: set[int]) -> bool:
    """Whether an attack was kept from an image that still stands, or an obligation was not met."""
    if level == "clean":
        return False
    missed = any(not kept <= set(record.judged.images) for record in _records(result, ("oblivious",)))
    if level != "adaptive" or result.bare is None:
        return missed
    return missed or not result.bare.complete or metrics.bound_only(result.bare, metrics.LEVELS["adaptive"])


def _right(result: Result, judged: Judged) -> set[int]:
    """Images that the bare classifier answers rightly."""
    return {image for image, answer in zip(judged.images, judged.bare, strict=True) if answer == result.labels[image]}


def _records(result: Result, names: tuple[str, ...]) -> list[AttackRecord]:
    """Attacks of these levels that ran."""
    return [
        record
        for record in result.attacks
        if record.knowledge in names and not (record.failed and not record.judged.images)
    ]


def _ran(result: Result, level: str) -> bool:
    return bool(_records(result, (level,)))


def _rejects(result: Result) -> bool:
    judged = (result.clean, *(record.judged for record in result.attacks))
    return result.subject.get("rule") == "abstain" or any(not all(one.accepted) for one in judged)
