"""Numbers from results: both protocols, detection, McNemar's test. Every share carries its n; no torch here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from alu import stats
from alu.errors import UsageError
from alu.evaluation.result import Answers, AttackRecord, Result
from alu.stats import Share

WRONG, CORRECT, REJECTED = 0, 1, 2
WORST_FIRST = (WRONG, REJECTED, CORRECT)
LEVELS = {
    "oblivious": ("oblivious",),
    "surrogate": ("oblivious", "surrogate"),
    "adaptive": ("oblivious", "surrogate", "adaptive"),
}
"""Whose attacks each attacker may use: one who knows more can do all that one who knows less can."""


def outcomes(answers: Answers, labels: Sequence[int]) -> dict[int, int]:
    """WRONG, CORRECT or REJECTED of each image that was answered, by position."""
    return {
        image: (CORRECT if answer == labels[image] else WRONG) if accepted else REJECTED
        for image, answer, accepted in zip(answers.images, answers.answer, answers.accepted, strict=True)
    }


def clean(result: Result) -> Share:
    """Clean images answered correctly."""
    by_image = outcomes(result.clean, result.labels)
    return Share(sum(value == CORRECT for value in by_image.values()), len(by_image))


def rejected_clean(result: Result) -> Share:
    """Clean images that were rejected."""
    return Share(sum(not accepted for accepted in result.clean.accepted), len(result.clean.accepted))


def worst(result: Result, knowledge: Iterable[str] | None = None) -> dict[int, int]:
    """Standard protocol: the worst outcome of each image over clean and all attacks (WRONG, then REJECTED)."""
    known = None if knowledge is None else set(knowledge)
    by_image = outcomes(result.clean, result.labels)
    for record in result.attacks:
        if known is None or record.knowledge in known:
            for image, value in outcomes(record.answers, result.labels).items():
                by_image[image] = min(value, by_image[image], key=WORST_FIRST.index)
    return by_image


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


def robust(result: Result, knowledge: Iterable[str] | None = None) -> Share:
    """Standard protocol: images answered correctly when clean and under every attack."""
    by_image = worst(result, knowledge)
    return Share(sum(value == CORRECT for value in by_image.values()), len(by_image))


def resisted(result: Result, knowledge: Iterable[str] | None = None) -> Share:
    """Standard protocol: images that no attack made the defence answer wrongly."""
    by_image = worst(result, knowledge)
    return Share(sum(value != WRONG for value in by_image.values()), len(by_image))


def bound_only(result: Result, knowledge: Iterable[str], standing: Collection[int] = (CORRECT,)) -> bool:
    """Whether one of these attacks was not run on an image that none of them broke: the figure is an upper bound."""
    known = set(knowledge)
    left = {image for image, value in worst(result, known).items() if value in standing}
    return any(
        not left <= set(record.answers.images)
        for record in result.attacks
        if record.knowledge in known and not (record.failed and not record.answers.images)
    )


def robust_under(result: Result, record: AttackRecord) -> Share:
    """Standard protocol for one attack on all images: answered correctly when clean and under this attack."""
    before, after = outcomes(result.clean, result.labels), outcomes(record.answers, result.labels)
    kept = sum(before[image] == CORRECT and value == CORRECT for image, value in after.items())
    return Share(kept, len(after))


def paper(result: Result, record: AttackRecord, who: str = "answer") -> Share | None:
    """Paper protocol: correct answers to attacked images, whatever was answered clean; None unless all were attacked.

    `who` is "answer" for the defence, or "bare", "purified" or "control".
    """
    answers: list[int] = getattr(record.answers, who)
    if not record.whole or not answers:
        return None
    rows = zip(record.answers.images, answers, record.answers.accepted, strict=True)
    correct = [answer == result.labels[image] and (accepted or who != "answer") for image, answer, accepted in rows]
    return Share(sum(correct), len(correct))


def beside(result: Result, answers: Answers, who: str) -> Share | None:
    """Correct answers to these images by the bare classifier ("bare"), the purifier alone ("purified") or the blur
    ("control")."""
    given: list[int] = getattr(answers, who)
    if not given:
        return None
    correct = [answer == result.labels[image] for image, answer in zip(answers.images, given, strict=True)]
    return Share(sum(correct), len(correct))


def flagged(answers: Answers) -> Share | None:
    """Images that were flagged; None without any image."""
    return Share(sum(answers.flagged), len(answers.flagged)) if answers.flagged else None


def per_class(result: Result) -> list[Share | None]:
    """Flagged clean images of each class; None for a class without images."""
    flags: list[list[bool]] = [[] for _ in result.classes]
    for image, flag in zip(result.clean.images, result.clean.flagged, strict=True):
        flags[result.labels[image]].append(flag)
    return [Share(sum(some), len(some)) if some else None for some in flags]


def rose_most(answers: Answers) -> Share | None:
    """Images whose true class has the highest Δ: where the ALU rule is correct if the image is flagged."""
    pairs = list(zip(answers.rise_true, answers.rise_other, strict=True))
    return Share(sum(true > other for true, other in pairs), len(pairs)) if pairs else None


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
    return None if threshold is None else Share(sum(value > threshold for value in positive), len(positive))


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
        pairs.append((Share(len(wrong), len(rows)), Share(sum(wrong), len(wrong)) if wrong else None))
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
    one, two = worst(first), worst(second)
    only_first = sum(one[image] == CORRECT and two[image] != CORRECT for image in one)
    only_second = sum(two[image] == CORRECT and one[image] != CORRECT for image in one)
    return only_first, only_second, stats.sign_test(only_first, only_second)
