"""How long an evaluation will take: a few images go through it first, and what that would cost too much is measured
with few steps."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from alu.attacks import PGD, Attack, AutoAttack, CWLinf
from alu.attacks.adaptive.base import AdaptiveAttack
from alu.attacks.goals import fooled, refuses_by_search
from alu.attacks.memory import remembering
from alu.check import evaluating
from alu.errors import AluError
from alu.evaluation.harmless import HARMLESS
from alu.evaluation.probes import DIAGNOSED, EPS_FACTORS, RESTARTS, STEPS, curve_attack, margin_slope
from alu.evaluation.refusal import SHARES, bounds_attack, denial_attack, rival
from alu.evaluation.suite import Entry, Evaluation

ATTACKED, PILOTED = 2, 8
"""So many images are attacked with few steps, and so many go through the whole evaluation."""
PILOT_SECONDS = 15.0
"""How long the images that go ahead may take in all attacks on one subject."""
SHORT = {"steps": 1, "queries": 10}
"""Settings that are reduced for the measurement; the time is multiplied by what they were."""
MORE_STEPS = 6
"""A second measurement of searches with so many steps: what they do once must not be multiplied."""
AUTOATTACK_STEPS = 3600.0
"""What AutoAttack costs, in steps of PGD: about 1,900 steps and 5,000 queries, a query a third of a step."""
FIRST_STEPS = 100.0
"""The steps after which AutoAttack is done with a classifier that is not robust."""
CURVE_STEPS = 20 * (len(EPS_FACTORS) + 1) + sum(STEPS) - 20 + 20 * RESTARTS
"""Steps of all searches of the diagnostics' curves."""
DECISIONS = 13
"""How often the diagnostics ask for the answers to their images, without a search."""


@dataclass(frozen=True)
class Duration:
    """Estimates in seconds: if attacks that do not know the defence break every image, judging by a few images that
    went ahead, and if no attack breaks any."""

    lower: float
    likely: float
    upper: float

    def __add__(self, other: Duration) -> Duration:
        return Duration(*(getattr(self, item.name) + getattr(other, item.name) for item in fields(self)))

    def __str__(self) -> str:
        return (
            f"about {in_words(self.likely)}, judging by the first images; {in_words(self.lower)} if every image is "
            f"broken by attacks that do not know the defence, up to {in_words(self.upper)} if no image is ever broken"
        )


def in_words(seconds: float) -> str:
    """Minutes or hours, rounded."""
    minutes = max(1, round(seconds / 60))
    return f"{minutes} minute{'s' if minutes > 1 else ''}" if minutes < 120 else f"{round(minutes / 60)} hours"


def estimate(evaluation: Evaluation) -> Duration:
    """How long all of a prepared evaluation takes, with its diagnostics, within the noise of a short measurement.

    Parameters
    ----------
    evaluation
        What `alu.evaluation.evaluate.prepare` returns.
    """
    total = of_attacks(evaluation) + _of_the_rest(evaluation)
    if evaluation.bare is not None:
        total += of_attacks(evaluation.bare)
        total += _of_rival(evaluation)
    return total


def of_attacks(evaluation: Evaluation) -> Duration:
    """The same for the attacks on one subject, and the answers to their images."""
    model, steady = evaluation.subject.model, evaluation.subject.steady
    with evaluating(model), remembering(model, steady):
        return _Pilot(evaluation).duration()


class _Pilot:
    """A few images that go ahead through all attacks of an evaluation."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation, self.n = evaluation, _count(evaluation)
        self.places = evaluation.positions(evaluation.blocks[0])[:PILOTED]
        self.standing = [place for place, wrong in zip(self.places, self.wrong(self.places), strict=True) if not wrong]
        self.few = (self.standing or self.places)[:ATTACKED]
        self.left = PILOT_SECONDS

    def duration(self) -> Duration:
        """Of all attacks."""
        answer = _seconds(lambda: self.evaluation.subject.answers(*self.images(self.places), self.places))
        answer *= self.n / len(self.places)
        total = Duration(answer, answer, answer)
        for entry in self.evaluation.attacks:
            whole, first = _measured(self.evaluation, entry.attack, self.few, self.n)
            if isinstance(getattr(entry.attack, "attack", entry.attack), AutoAttack):
                robust = self.robust()
                likely = first + (whole - first) * robust if entry.whole else whole * min(robust, self.share())
            else:
                likely = self.likely(entry, whole)
            # An attack on unbroken images has none to attack where the earlier ones break all.
            lower = first + answer if entry.whole else 0.0
            total += Duration(lower, likely + answer * (1.0 if entry.whole else self.share()), whole + answer)
        return Duration(total.lower, min(max(total.lower, total.likely), total.upper), total.upper)

    def likely(self, entry: Entry, whole: float) -> float:
        """Seconds of one attack on all images, if they fare as these do; it is run on them where it does not take too
        long."""
        chosen = self.places if entry.whole else self.standing
        share = len(chosen) / len(self.places)
        if not chosen or whole * len(chosen) / self.n > self.left:
            return whole * share
        images, labels = self.images(chosen)
        started = time.perf_counter()
        try:
            adversarial = entry.attack(self.evaluation.subject.model, images, labels, numbers=chosen)
        except Exception:  # the evaluation will say why it cannot run
            return 0.0
        seconds = time.perf_counter() - started
        self.left -= seconds
        hit = {place for place, wrong in zip(chosen, self.wrong(chosen, adversarial), strict=True) if wrong}
        self.standing = [place for place in self.standing if place not in hit]
        return seconds * self.n / len(self.places)

    def share(self) -> float:
        """Of the images, those that still stand."""
        return len(self.standing) / len(self.places)

    def robust(self) -> float:
        """Of the images, those that the classifier alone keeps: AutoAttack is soon done with the others."""
        logits, (images, labels) = self.evaluation.subject.logits, self.images(self.places)
        try:
            found = CWLinf(steps=20, **self.evaluation.common)(logits, images, labels)
        except AluError:
            return 1.0
        return float((~fooled(logits, found, labels)).float().mean())

    def images(self, places: list[int]) -> tuple[Tensor, Tensor]:
        """Images and labels at these positions."""
        return self.evaluation.images[places], self.evaluation.labels[places]

    def wrong(self, places: list[int], images: Tensor | None = None) -> list[bool]:
        """Whether the answer to each is wrong."""
        clean, labels = self.images(places)
        return fooled(self.evaluation.subject.model, clean if images is None else images, labels).tolist()


def _count(evaluation: Evaluation) -> int:
    """How many images the shard has."""
    return sum(len(evaluation.positions(block)) for block in evaluation.blocks)


def _seconds(work: Callable[[], Any]) -> float:
    """How long this takes; nothing if it fails, because then the evaluation will say why."""
    started = time.perf_counter()
    try:
        work()
    except Exception:
        return 0.0
    return time.perf_counter() - started


def _measured(evaluation: Evaluation, attack: Attack, places: list[int], n: int) -> tuple[float, float]:
    """Seconds of one attack on `n` images, and of its first steps; 0 if it cannot run."""
    model, images, labels = evaluation.subject.model, evaluation.images[places], evaluation.labels[places]
    last = attack.last_tries(model) if isinstance(attack, AdaptiveAttack) else ()
    total = first = 0.0
    for part in (attack, *last):
        short, factor = shortened(part)
        once = seconds = _seconds(lambda short=short: short(model, images, labels)) * n / len(places)  # type: ignore[misc]
        if isinstance(part, AdaptiveAttack) and getattr(part, "steps", 0) > MORE_STEPS and once:
            short.steps = MORE_STEPS
            longer = _seconds(lambda short=short: short(model, images, labels)) * n / len(places)  # type: ignore[misc]
            total += max(longer, once + (factor - 1) / (MORE_STEPS - 1) * max(0.0, longer - once))
        else:
            total += factor * once
        first += min(factor, FIRST_STEPS) * seconds
    return total, min(first, total)


def _of_the_rest(evaluation: Evaluation) -> Duration:
    """Everything besides the attacks: harmless changes, the evaluation's checks of itself, and the curves of a defence
    that refuses."""
    subject, defense, n = evaluation.subject, evaluation.subject.defense, _count(evaluation)
    pilot = evaluation.positions(evaluation.blocks[0])[:PILOTED]
    images, labels = evaluation.images[pilot], evaluation.labels[pilot]
    seconds = 0.0
    with evaluating(subject.model):
        answer = _seconds(lambda: subject.answers(images, labels, pilot)) / len(pilot)
        if evaluation.shard[0] == 0:
            if defense is not None:
                seconds += len(HARMLESS) * min(len(evaluation.images), 2 * evaluation.block_size) * answer
            slope = _seconds(lambda: margin_slope(subject, images, labels)) / len(pilot)
            twenty = curve_attack(subject, evaluation.threat, evaluation.threat.eps, 20, evaluation.seed)
            with remembering(subject.model, subject.steady):
                search = _seconds(lambda: twenty(subject.model, images, labels)) / len(pilot)
            few = min(DIAGNOSED, len(evaluation.images))
            # The restarts that are compared make about as many steps as one search.
            seconds += few * (DECISIONS * answer + 2 * slope + (CURVE_STEPS / 20 + 1) * search)
        if defense is not None and defense.rule_.rejects and evaluation.suite == "adaptive" and not evaluation.only:
            seconds += _of_curves(evaluation, pilot[:ATTACKED], n)
    return Duration(seconds, seconds, seconds)


def _of_curves(evaluation: Evaluation, few: list[int], n: int) -> float:
    """Seconds of what is measured on every image of a defence that refuses, if no radius silences it."""
    steps = [share for share in SHARES if share]
    seconds = len(steps) * _measured(evaluation, denial_attack(evaluation, steps[-1]), few, n)[0]
    if refuses_by_search(evaluation.subject.defense) and evaluation.threat.norm == "Linf":
        bare = replace(evaluation, subject=evaluation.bare.subject) if evaluation.bare is not None else evaluation
        seconds += 2 * _measured(bare, bounds_attack(evaluation, evaluation.threat.eps), few, n)[0]
    return seconds


def _of_rival(evaluation: Evaluation) -> Duration:
    """The attacks on refusal by confidence, where the evaluation will make them."""
    first = evaluation.positions(evaluation.blocks[0])
    few = torch.tensor(first[:PILOTED], device=evaluation.images.device)
    other = rival(replace(evaluation, images=evaluation.images[few], labels=evaluation.labels[few], shard=(0, 1)))
    if other is None:
        return Duration(0.0, 0.0, 0.0)
    cost, scale = of_attacks(other), _count(evaluation) / len(few)
    return Duration(cost.lower * scale, cost.likely * scale, cost.upper * scale)


def shortened(attack: Any) -> tuple[Any, float]:
    """A copy that does a small part of the work, and how many times more the whole is."""
    if isinstance(attack, AutoAttack):  # it has no setting to reduce
        return PGD(norm=attack.threat.norm, eps=attack.threat.eps, steps=1), AUTOATTACK_STEPS
    short = copy.copy(attack)
    if isinstance(short, AdaptiveAttack):
        short.last_tries = lambda _: ()  # type: ignore[method-assign, assignment]
    if hasattr(attack, "attack"):
        short.attack, factor = shortened(attack.attack)
        return short, factor
    factor = 1.0
    for name, least in SHORT.items():
        value = getattr(attack, name, None)
        if isinstance(value, int) and value > least:
            setattr(short, name, least)
            factor = max(factor, value / least)
    return short, factor
