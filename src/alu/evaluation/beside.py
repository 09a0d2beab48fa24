"""A refusing defence beside refusal by confidence, which answers as many of the clean images. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alu.evaluation import metrics
from alu.stats import Estimate, Share, mean_difference, sign_test

if TYPE_CHECKING:
    from alu.evaluation.result import Result

SIGNIFICANT = 0.05
"""Below this p-value two figures differ."""
Number = tuple[str, float, str]
"""Name, value and text of a figure in a sentence."""


@dataclass(frozen=True)
class Beside:
    """RAR of a refusing defence beside that of refusal by confidence, on the same images."""

    defended: Share
    confidence: Share
    coverage: tuple[Share, Share]
    """Clean images that the defence and that confidence answers."""
    difference: Estimate
    """By how much the defence's share is larger."""
    p: float
    """As in `Verdict`."""
    verdict: str


def beside_confidence(result: Result) -> Beside | None:
    """The defence beside refusal by confidence; None where that was not measured."""
    other = result.rival
    if other is None:
        return None
    ours, theirs = metrics.kept(result), metrics.kept(other)
    n, (only_ours, only_theirs) = len(result.labels), (len(ours - theirs), len(theirs - ours))
    p = sign_test(only_ours, only_theirs)
    word = "unclear" if p >= SIGNIFICANT else "helps" if only_ours > only_theirs else "harms"
    return Beside(
        Share(len(ours), n), Share(len(theirs), n), (metrics.coverage(result), metrics.coverage(other)),
        mean_difference(*([float(image in some) for image in range(n)] for some in (ours, theirs))), p, word,
    )  # fmt: skip


def beside_parts(beside: Beside) -> list[str | Number]:
    """The comparison in words, with its figures apart."""

    def percent(name: str, share: Share) -> Number:
        return name, share.value, f"{100 * share.value:.1f} %"

    value, (low, high) = beside.difference.value, beside.difference.interval
    ends = ("difference.low", low, f"{100 * low:+.1f}"), ("difference.high", high, f"{100 * high:+.1f}")
    p_value = f"= {beside.p:.3f}" if beside.p >= 0.001 else "< 0.001"
    what = {"helps": "keeps more than", "harms": "keeps less than", "unclear": "cannot be told apart from"}
    return [
        f"This defence {what[beside.verdict]} refusal by confidence at the same coverage (answered clean: ",
        percent("coverage", beside.coverage[0]), " and ", percent("rival_coverage", beside.coverage[1]),
        "): confidence ", percent("confidence", beside.confidence), ", this defence ",
        percent("defended", beside.defended), ", a difference of ", ("difference", value, f"{100 * value:+.1f}"),
        " points [", ends[0], ", ", ends[1], "] (n = ", ("n", beside.defended.n, str(beside.defended.n)),
        ", p ", ("p", beside.p, p_value), ").",
    ]  # fmt: skip


def in_words(parts: list[str | Number]) -> str:
    """Parts of a sentence, joined."""
    return "".join(part if isinstance(part, str) else part[2] for part in parts)
