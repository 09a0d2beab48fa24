"""Numbers from results: both protocols, detection, McNemar's test. Every share carries its n; no torch here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from alu import stats
from alu.errors import UsageError
from alu.stats import Share

if TYPE_CHECKING:
    from alu.evaluation.result import Answers, AttackRecord, Result

WRONG, CORRECT, REJECTED = 0, 1, 2
WORST_FIRST = (WRONG, REJECTED, CORRECT)
LEVELS = {
    "oblivious": ("oblivious",),
    "surrogate": ("oblivious", "surrogate"),
    "adaptive": ("oblivious", "surrogate", "adaptive"),
}
"""Whose attacks each attacker may use: one who knows more can do all that one who knows less can."""


def _share(hits: Iterable[bool]) -> Share:
    hits = list(hits)
    return Share(sum(hits), len(hits))


def outcomes(answers: Answers, labels: Sequence[int]) -> dict[int, int]:
    """WRONG, CORRECT or REJECTED of each image that was answered, by position."""
    return {
        image: (CORRECT if answer == labels[image] else WRONG) if accepted else REJECTED
        for image, answer, accepted in zip(answers.images, answers.answer, answers.accepted, strict=True)
    }


def clean(result: Result) -> Share:
    """Clean images answered correctly."""
    return robust(result, ())


def rejected_clean(result: Result) -> Share:
    """Clean images that were rejected."""
    return _share(not accepted for accepted in result.clean.accepted)


def worst(result: Result, knowledge: Collection[str] | None = None) -> dict[int, int]:
    """Standard protocol: the worst outcome of each image (WRONG, then REJECTED) when clean and under the attacks of
    these levels, or under all attacks."""
    by_image = outcomes(result.clean, result.labels)
    for record in result.attacks:
        if knowledge is None or record.knowledge in knowledge:
            for image, value in outcomes(record.answers, result.labels).items():
                by_image[image] = min(value, by_image[image], key=WORST_FIRST.index)
    return by_image


def robust(result: Result, knowledge: Collection[str] | None = None) -> Share:
    """Standard protocol: images answered correctly when clean and under every attack."""
    return _share(value == CORRECT for value in worst(result, knowledge).values())


def resisted(result: Result, knowledge: Collection[str] | None = None) -> Share:
    """Standard protocol: images that no attack made the defence answer wrongly."""
    return _share(value != WRONG for value in worst(result, knowledge).values())


def robust_or_refused(result: Result, knowledge: Collection[str] | None = None) -> Share:
    """RAR: images answered correctly when clean, and answered wrongly under no attack. A refusal under attack does no
    harm; a refused clean image counts against the defence."""
    return Share(len(kept(result, knowledge)), len(result.clean.images))


def kept(result: Result, knowledge: Collection[str] | None = None) -> set[int]:
    """The images that RAR counts."""
    before, after = outcomes(result.clean, result.labels), worst(result, knowledge)
    return {image for image, value in after.items() if before[image] == CORRECT and value != WRONG}


def denial(result: Result) -> list[tuple[float, Share]]:
    """How easily a refusing defence is silenced: for each radius, smallest first, the images that are right and
    answered, and that no attack within it makes refused or wrong."""
    return [(row["eps"], Share(row["right"], row["n"])) for row in result.curves.get("denial") or []]


def coverage(result: Result) -> Share:
    """Clean images that were answered."""
    return _share(result.clean.accepted)


def right_when_answered(result: Result) -> Share | None:
    """Correct answers among the clean images that were answered; None where there is none."""
    answered = [value for value in outcomes(result.clean, result.labels).values() if value != REJECTED]
    return _share(value == CORRECT for value in answered) if answered else None


def right_draws(result: Result) -> tuple[list[float], list[float]] | None:
    """Of a random defence, for each image the share of draws that answer correctly: clean, and under the attack that
    lowers it most. An upper bound: an image that one draw gets wrong counts as broken, and is attacked no further."""
    if not result.clean.steady:
        return None
    clean = dict(zip(result.clean.images, result.clean.steady, strict=True))
    lowest = dict(clean)
    for record in result.attacks:
        for image, value in zip(record.answers.images, record.answers.steady, strict=False):
            lowest[image] = min(lowest[image], value)
    return [clean[image] for image in sorted(clean)], [lowest[image] for image in sorted(clean)]


def over_draws(result: Result) -> tuple[float, float] | None:
    """The means of `right_draws`. The worst draw is what `clean` and `robust` count."""
    both = right_draws(result)
    return None if both is None else (sum(both[0]) / len(both[0]), sum(both[1]) / len(both[1]))


def ran(result: Result, knowledge: Collection[str]) -> list[AttackRecord]:
    """The attacks of these levels, without those that failed before their first image."""
    return [
        record
        for record in result.attacks
        if record.knowledge in knowledge and (record.answers.images or not record.failed)
    ]


def bound_only(result: Result, knowledge: Collection[str], standing: Collection[int] = (CORRECT,)) -> bool:
    """Whether one of these attacks was not run on an image that none of them broke: the figure is an upper bound."""
    left = {image for image, value in worst(result, knowledge).items() if value in standing}
    return any(not left <= set(record.answers.images) for record in ran(result, knowledge))


def robust_under(result: Result, record: AttackRecord) -> Share:
    """Standard protocol for one attack on all images: answered correctly when clean and under this attack."""
    before, after = outcomes(result.clean, result.labels), outcomes(record.answers, result.labels)
    return _share(before[image] == CORRECT and value == CORRECT for image, value in after.items())


def paper(result: Result, record: AttackRecord) -> Share | None:
    """Paper protocol: correct answers to attacked images, whatever was answered clean; None unless all were
    attacked."""
    if not record.whole or not record.answers.images:
        return None
    return _share(value == CORRECT for value in outcomes(record.answers, result.labels).values())


def beside(result: Result, answers: Answers, who: str) -> Share | None:
    """Correct answers to these images by the bare classifier ("bare"), the purifier alone ("purified") or the blur
    ("control")."""
    given: list[int] = getattr(answers, who)
    if not given:
        return None
    return _share(answer == result.labels[image] for image, answer in zip(answers.images, given, strict=True))


def flagged(answers: Answers) -> Share | None:
    """Images that were flagged; None without any image."""
    return _share(answers.flagged) if answers.flagged else None


def per_class(result: Result) -> list[Share | None]:
    """Flagged clean images of each class; None for a class without images."""
    flags: list[list[bool]] = [[] for _ in result.classes]
    for image, flag in zip(result.clean.images, result.clean.flagged, strict=True):
        flags[result.labels[image]].append(flag)
    return [_share(some) if some else None for some in flags]


def broken(result: Result, record: AttackRecord) -> int:
    """How many images this attack made the defence answer wrongly."""
    return sum(value == WRONG for value in outcomes(record.answers, result.labels).values())


def scores(answers: Answers) -> list[float]:
    """The suspicion scores; none without a detector."""
    return [value for value in answers.score if value is not None]


def detected_at(negative: Sequence[float], positive: Sequence[float], rate: float) -> Share | None:
    """Attacked images above the clean scores' conformal threshold for a false-alarm rate; None where there are too few
    clean images for that rate."""
    threshold = stats.conformal_threshold(negative, rate)
    return None if threshold is None else _share(value > threshold for value in positive)


def kept_and_wrong(
    labels: Sequence[int], answers: Answers, thresholds: Sequence[float]
) -> list[tuple[Share, Share | None]]:
    """Rule "abstain" at each threshold: images accepted, and wrong answers among those (None where all are rejected).

    An image is accepted when its score is at most the threshold, and then answered by argmax Π.
    """
    rows = [
        (score, answer != labels[image])
        for image, score, answer in zip(answers.images, answers.score, answers.purified, strict=True)
        if score is not None
    ]
    pairs: list[tuple[Share, Share | None]] = []
    for threshold in thresholds:
        wrong = [bad for score, bad in rows if score <= threshold]
        pairs.append((Share(len(wrong), len(rows)), _share(wrong) if wrong else None))
    return pairs


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
    one, two = ({image for image, value in worst(result).items() if value == CORRECT} for result in (first, second))
    return len(one - two), len(two - one), stats.sign_test(len(one - two), len(two - one))
