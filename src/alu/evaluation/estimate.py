"""How long an evaluation will take, measured with one step of every attack on a few images."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from typing import Any

import torch

from alu.attacks import PGD, AutoAttack
from alu.attacks.adaptive.base import AdaptiveAttack
from alu.attacks.goals import fooled
from alu.errors import AluError
from alu.evaluation.cascade import Evaluation
from alu.modes import evaluating

ATTACKED, TRIED = 2, 16
"""So many images are attacked, the first of so many that are answered correctly."""
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

    def __add__(self, other: Duration) -> Duration:
        return Duration(self.lower + other.lower, self.upper + other.upper)

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
    total = _measured(evaluation)
    return total if evaluation.bare is None else total + _measured(evaluation.bare)


def _measured(evaluation: Evaluation) -> Duration:
    """All attacks on one subject, one step of each."""
    subject, n = evaluation.subject, len(evaluation.images)
    # An attack on all images is timed on a whole block; the others on a few images, which overstates overhead.
    block, few = evaluation.positions(0), _answered_correctly(evaluation)
    total = Duration(0.0, 0.0)
    for entry in evaluation.attacks:
        positions = block if entry.whole else few
        images, labels = evaluation.images[positions], evaluation.labels[positions]
        parts = [entry.attack]
        if isinstance(entry.attack, AdaptiveAttack):
            parts += entry.attack.last_tries(subject.model)
        for part in parts:
            attack, factor = shortened(part)
            started = time.perf_counter()
            try:
                attack(subject.model, images, labels)
            except AluError:
                continue
            seconds = (time.perf_counter() - started) * n / len(positions)
            # The lower estimate: no image is left for an attack that runs on unbroken images only.
            total += Duration(min(factor, FIRST_STEPS) * seconds if entry.whole else 0.0, factor * seconds)
    return total


def _answered_correctly(evaluation: Evaluation) -> list[int]:
    """The first images that are answered correctly: an attack has nothing to do on the others."""
    images, labels = evaluation.images[:TRIED], evaluation.labels[:TRIED]
    with torch.no_grad(), evaluating(evaluation.subject.model, evaluation.subject.classifier):
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
