"""How long an evaluation will take, measured with one step of every attack on a few images."""

from __future__ import annotations

import copy
import time
from typing import Any

from alu.attacks import PGD, AutoAttack
from alu.data.dataset import Dataset
from alu.errors import AluError
from alu.evaluation.subject import Subject
from alu.evaluation.suite import Plan, entries
from alu.threat import ThreatModel

PROBED = 4
SHORT = {"steps": 1, "queries": 10}
"""Settings that are cut for the probe; the time is multiplied by what they were."""


def estimate(
    model: Any, dataset: Dataset, threat: ThreatModel, suite: str, budget: str, seed: int, block_size: int = 50
) -> float:
    """Seconds if no image fell before the last attack: an upper bound, within the noise of a short measurement."""
    subject = Subject(model)
    few = dataset.take(list(range(min(PROBED, len(dataset)))))
    images, labels = few.images, few.labels
    plan = Plan(threat, suite, budget, seed, block_size, dataset.images[:200], dataset.labels[:200])
    seconds = 0.0
    for entry in entries(subject, plan):
        attack, factor = shortened(entry.attack)
        started = time.perf_counter()
        try:
            attack(subject.model, images, labels)
        except AluError:
            continue
        seconds += factor * (time.perf_counter() - started)
    return seconds * len(dataset) / max(1, len(few))


def shortened(attack: Any) -> tuple[Any, float]:
    """A copy that does a small part of the work, and how much more the whole is."""
    if isinstance(attack, AutoAttack):
        # It has no setting to cut. About 1,900 steps and 5,000 queries, a query a third of a step.
        return PGD(norm=attack.threat.norm, eps=attack.threat.eps, steps=1), 3600.0
    made = copy.copy(attack)
    if hasattr(attack, "attack"):
        made.attack, factor = shortened(attack.attack)
        return made, factor
    factor = 1.0
    for name, least in SHORT.items():
        value = getattr(attack, name, None)
        if isinstance(value, int) and value > least:
            setattr(made, name, least)
            factor = max(factor, value / least)
    return made, factor
