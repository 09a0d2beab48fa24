"""How long an evaluation will take, measured with one step of every attack on a few images."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from typing import Any

from alu.attacks import PGD, AutoAttack
from alu.attacks.adaptive.base import AdaptiveAttack
from alu.attacks.goals import fooled
from alu.check import evaluating
from alu.evaluation.suite import Entry, Evaluation

ATTACKED, TRIED = 2, 16
"""ATTACKED images are timed: the first that are answered correctly among the first TRIED."""
SHORT = {"steps": 1, "queries": 10}
"""Settings that are reduced for the measurement; the time is multiplied by what they were."""
AUTOATTACK_STEPS = 3600.0
"""What AutoAttack costs, in steps of PGD: about 1,900 steps and 5,000 queries, a query a third of a step."""
FIRST_STEPS = 100.0
"""The steps after which AutoAttack is done with a classifier that is not robust."""


@dataclass(frozen=True)
class Duration:
    """Lower and upper estimate in seconds: if attacks that do not know the defence break every image, and if no attack
    breaks any."""

    lower: float
    upper: float

    def __str__(self) -> str:
        return (
            f"about {in_words(self.lower)} if every image is broken by attacks that do not know the defence, up to "
            f"{in_words(self.upper)} if no image is ever broken"
        )


def in_words(seconds: float) -> str:
    """Minutes or hours, rounded."""
    minutes = max(1, round(seconds / 60))
    return f"{minutes} minute{'s' if minutes > 1 else ''}" if minutes < 120 else f"{round(minutes / 60)} hours"


def estimate(evaluation: Evaluation) -> Duration:
    """How long all of a prepared evaluation takes, within the noise of a short measurement.

    Parameters
    ----------
    evaluation
        What `alu.evaluation.evaluate.prepare` returns.
    """
    lower = upper = 0.0
    for part in (evaluation, evaluation.bare):
        if part is None:
            continue
        few = _answered_correctly(part)
        for entry in part.attacks:
            # An attack on all images is timed on a whole block; the others on a few images, which overstates overhead.
            seconds, first = _measured(part, entry, part.positions(0) if entry.whole else few)
            upper += seconds
            # No image is left for an attack that runs on unbroken images only.
            lower += first if entry.whole else 0.0
    return Duration(lower, upper)


def _measured(evaluation: Evaluation, entry: Entry, positions: list[int]) -> tuple[float, float]:
    """Seconds of one attack on all images of the shard, and of its first steps; 0 if it cannot run."""
    model, n = evaluation.subject.model, sum(len(evaluation.positions(block)) for block in evaluation.blocks)
    images, labels = evaluation.images[positions], evaluation.labels[positions]
    last = entry.attack.last_tries(model) if isinstance(entry.attack, AdaptiveAttack) else ()
    total = first = 0.0
    for attack in (entry.attack, *last):
        short, factor = shortened(attack)
        started = time.perf_counter()
        try:
            short(model, images, labels)
        except Exception:  # the evaluation will say why it cannot run
            continue
        seconds = (time.perf_counter() - started) * n / len(positions)
        total += factor * seconds
        first += min(factor, FIRST_STEPS) * seconds
    return total, first


def _answered_correctly(evaluation: Evaluation) -> list[int]:
    """The first images that are answered correctly: an attack has nothing to do on the others."""
    images, labels = evaluation.images[:TRIED], evaluation.labels[:TRIED]
    with evaluating(evaluation.subject.model):
        wrong = fooled(evaluation.subject.model, images, labels).tolist()
    correct = [position for position, is_wrong in enumerate(wrong) if not is_wrong]
    return (correct or list(range(len(images))))[:ATTACKED]


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
