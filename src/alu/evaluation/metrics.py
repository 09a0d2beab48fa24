"""Numbers from results: both protocols, detection, McNemar's test. Every share carries its n; no torch here."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence

from alu.errors import UsageError
from alu.evaluation.result import AttackRecord, Judged, Result
from alu.stats import Share

WRONG, CORRECT, REJECTED = 0, 1, 2
LEVELS = {
    "oblivious": ("oblivious",),
    "surrogate": ("oblivious", "surrogate"),
    "adaptive": ("oblivious", "surrogate", "adaptive"),
}
"""Whose attacks each attacker may use: one who knows more can do all that one who knows less can."""


def outcomes(judged: Judged, labels: Sequence[int]) -> dict[int, int]:
    """WRONG, CORRECT or REJECTED of each judged image, by position."""
    return {
        image: (CORRECT if answer == labels[image] else WRONG) if accepted else REJECTED
        for image, answer, accepted in zip(judged.images, judged.answer, judged.accepted, strict=True)
    }


def clean(result: Result) -> Share:
    """Clean images answered rightly."""
    found = outcomes(result.clean, result.labels)
    return Share(sum(value == CORRECT for value in found.values()), len(found))


def rejected_clean(result: Result) -> Share:
    """Clean images that were turned away."""
    return Share(sum(not accepted for accepted in result.clean.accepted), len(result.clean.accepted))


def worst(result: Result, knowledge: Iterable[str] | None = None) -> dict[int, int]:
    """Standard protocol: the worst outcome of each image over clean and all attacks (WRONG, then REJECTED)."""
    known = None if knowledge is None else set(knowledge)
    order = {WRONG: 0, REJECTED: 1, CORRECT: 2}
    found = outcomes(result.clean, result.labels)
    for record in result.attacks:
        if known is None or record.knowledge in known:
            for image, value in outcomes(record.judged, result.labels).items():
                if order[value] < order[found[image]]:
                    found[image] = value
    return found


def right_draws(result: Result) -> tuple[list[float], list[float]] | None:
    """Of a random defence, for each image the share of draws that answer rightly: clean, and under the attack that
    lowers it most. An upper bound: an image that one draw gets wrong has fallen, and is attacked no further."""
    if not result.clean.steady:
        return None
    clean = dict(zip(result.clean.images, result.clean.steady, strict=True))
    least = dict(clean)
    for record in result.attacks:
        for image, share in zip(record.judged.images, record.judged.steady, strict=False):
            least[image] = min(least[image], share)
    return [clean[image] for image in sorted(clean)], [least[image] for image in sorted(clean)]


def over_draws(result: Result) -> tuple[float, float] | None:
    """The means of `right_draws`. The worst draw is what `clean` and `robust` count."""
    found = right_draws(result)
    return None if found is None else (sum(found[0]) / len(found[0]), sum(found[1]) / len(found[1]))


def robust(result: Result, knowledge: Iterable[str] | None = None) -> Share:
    """Standard protocol: images answered rightly under every attack and clean."""
    found = worst(result, knowledge)
    return Share(sum(value == CORRECT for value in found.values()), len(found))


def resisted(result: Result, knowledge: Iterable[str] | None = None) -> Share:
    """Standard protocol: images that nothing made the defence answer wrongly."""
    found = worst(result, knowledge)
    return Share(sum(value != WRONG for value in found.values()), len(found))


def bound_only(result: Result, knowledge: Iterable[str], standing: Collection[int] = (CORRECT,)) -> bool:
    """Whether an image that still stands was kept from one of these attacks: their figure is then an upper bound."""
    known = set(knowledge)
    left = {image for image, value in worst(result, known).items() if value in standing}
    return any(
        not left <= set(record.judged.images)
        for record in result.attacks
        if record.knowledge in known and not (record.failed and not record.judged.images)
    )


def alone(result: Result, record: AttackRecord) -> Share:
    """Standard protocol for one attack that saw every image: right clean and right under this attack."""
    before, after = outcomes(result.clean, result.labels), outcomes(record.judged, result.labels)
    return Share(
        sum(before[image] == CORRECT and value == CORRECT for image, value in after.items()),
        len(after),
    )


def paper(result: Result, record: AttackRecord, who: str = "answer") -> Share | None:
    """Paper protocol: right answers on attacked images, whatever was answered clean; None unless all were attacked."""
    answers: list[int] = getattr(record.judged, who)
    if not record.whole or not answers:
        return None
    pairs = zip(record.judged.images, answers, record.judged.accepted, strict=True)
    right = [answer == result.labels[image] and (accepted or who != "answer") for image, answer, accepted in pairs]
    return Share(sum(right), len(right))


def beside(result: Result, judged: Judged, who: str) -> Share | None:
    """Right answers of the bare classifier ("bare"), the purifier alone ("purified") or the control on these images."""
    answers: list[int] = getattr(judged, who)
    if not answers:
        return None
    right = [answer == result.labels[image] for image, answer in zip(judged.images, answers, strict=True)]
    return Share(sum(right), len(right))


def flagged(judged: Judged) -> Share | None:
    """Flagged images among those judged; None without any image."""
    return Share(sum(judged.flagged), len(judged.flagged)) if judged.flagged else None


def per_class(result: Result) -> list[Share | None]:
    """Flagged clean images of each class; None for a class without images."""
    flags: list[list[bool]] = [[] for _ in result.classes]
    for image, flag in zip(result.clean.images, result.clean.flagged, strict=True):
        flags[result.labels[image]].append(flag)
    return [Share(sum(some), len(some)) if some else None for some in flags]


def rose_most(judged: Judged) -> Share | None:
    """Images whose true class has the highest Δ: where ALU, once it is flagged, is right."""
    pairs = list(zip(judged.rise_true, judged.rise_other, strict=True))
    return Share(sum(true > other for true, other in pairs), len(pairs)) if pairs else None


def broken(result: Result, record: AttackRecord) -> int:
    """How many images this attack made the defence answer wrongly."""
    return sum(value == WRONG for value in outcomes(record.judged, result.labels).values())


def scores(judged: Judged) -> list[float]:
    """The suspicion scores there are; none without a detector."""
    return [value for value in judged.score if value is not None]


def roc(negative: Sequence[float], positive: Sequence[float]) -> list[tuple[float, float]]:
    """False-alarm rate and detection rate at every threshold, from (0, 0) to (1, 1)."""
    below, above = sorted(negative), sorted(positive)
    return [(0.0, 0.0)] + [
        (1 - bisect_left(below, threshold) / len(below), 1 - bisect_left(above, threshold) / len(above))
        for threshold in sorted({*below, *above}, reverse=True)
    ]


def detected_at(negative: Sequence[float], positive: Sequence[float], rate: float) -> Share | None:
    """Attacked images above the clean scores' conformal (1 - rate) quantile; None where too few clean images are."""
    ranked = sorted(negative)
    allowed = math.floor(rate * (len(ranked) + 1) + 1e-9)
    if allowed == 0:
        # No threshold is known to keep so small a rate.
        return None
    threshold = ranked[len(ranked) - allowed]
    return Share(sum(value > threshold for value in positive), len(positive))


def kept_and_wrong(
    labels: Sequence[int], judged: Judged, thresholds: Sequence[float]
) -> list[tuple[Share, Share | None]]:
    """Rule "abstain" at each threshold: images accepted, and wrong answers among those (None where all are rejected).

    An image is accepted when its score is at most the threshold, and then answered by argmax Π.
    """
    rows = [
        (score, answer != labels[image])
        for image, score, answer in zip(judged.images, judged.score, judged.purified, strict=True)
        if score is not None
    ]
    found: list[tuple[Share, Share | None]] = []
    for threshold in thresholds:
        wrong = [bad for score, bad in rows if score <= threshold]
        found.append((Share(len(wrong), len(rows)), Share(sum(wrong), len(wrong)) if wrong else None))
    return found


def precision(detection: float, false_alarm: float, prevalence: float = 1e-4) -> float:
    """Share of alarms that are attacks, when one image in 1/prevalence is attacked."""
    hits, misses = detection * prevalence, false_alarm * (1 - prevalence)
    return hits / (hits + misses) if hits + misses > 0 else 0.0


def mcnemar(first: Result, second: Result) -> tuple[int, int, float]:
    """Images that only the first and only the second keeps, and the exact two-sided p-value that they are as good."""
    images = [
        ([result.dataset.get(fact) for fact in ("name", "split", "sha256")], result.numbers, result.labels)
        for result in (first, second)
    ]
    if images[0] != images[1]:
        raise UsageError("McNemar's test compares two results on the same images; these are on different ones.")
    one, two = worst(first), worst(second)
    only_first = sum(one[image] == CORRECT and two[image] != CORRECT for image in one)
    only_second = sum(two[image] == CORRECT and one[image] != CORRECT for image in one)
    return only_first, only_second, sign_test(only_first, only_second)


def sign_test(first: int, second: int) -> float:
    """The exact two-sided p-value that two counts are draws of a fair coin."""
    total = first + second
    tail = sum(math.comb(total, k) for k in range(min(first, second) + 1)) / (1 << total)
    return min(1.0, 2 * tail)
