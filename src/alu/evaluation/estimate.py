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
from alu.data.dataset import Dataset
from alu.errors import AluError
from alu.evaluation.looks import seen_traits
from alu.evaluation.run import TOLD_BY, other_networks
from alu.evaluation.subject import Subject, device_of
from alu.evaluation.suite import Plan, entries
from alu.modes import evaluating
from alu.threat import ThreatModel

PROBED, LOOKED_AT = 2, 16
"""So many images are attacked, the first of so many that are answered rightly."""
SHORT = {"steps": 1, "queries": 10}
"""Settings that are cut for the probe; the time is multiplied by what they were."""


@dataclass(frozen=True)
class Estimate:
    """Seconds if every image fell to the attacks that see all of them, and if none ever fell."""

    least: float
    most: float

    def __str__(self) -> str:
        return (
            f"about {duration(self.least)} if every image falls to the attacks that do not know the defence, up to "
            f"{duration(self.most)} if none ever falls"
        )


def duration(seconds: float) -> str:
    """Minutes or hours, as one would say it."""
    minutes = max(1, round(seconds / 60))
    return f"{minutes} minute{'s' if minutes > 1 else ''}" if minutes < 120 else f"{round(minutes / 60)} hours"


def estimate(
    model: Any,
    dataset: Dataset,
    threat: ThreatModel,
    suite: str,
    budget: str,
    seed: int,
    block_size: int = 50,
    bare: bool = True,
) -> Estimate:
    """How long an evaluation takes, within the noise of a short measurement; `bare` as in `evaluate`."""
    subject = Subject(model)
    device = device_of(model)
    guides, guide_labels = dataset.images[:200].to(device), dataset.labels[:200].to(device)
    with torch.no_grad(), evaluating(subject.model, subject.classifier):
        classes = subject.logits(guides[:2]).shape[1]
    others = other_networks(subject, dataset)
    plan = Plan(threat, suite, budget, seed, block_size, guides, guide_labels, others, classes)
    found = _measured(subject, plan, dataset)
    if bare and subject.defense is not None:
        inside = _measured(Subject(subject.classifier), plan, dataset)
        found = Estimate(found.least + inside.least, found.most + inside.most)
    return found


def _measured(subject: Subject, plan: Plan, dataset: Dataset) -> Estimate:
    """All attacks on one subject, one step of each."""
    few, few_labels = plan.guides[:TOLD_BY], plan.guide_labels[:TOLD_BY]
    subject.traits = subject.declared.joined(seen_traits(subject, few, few_labels))
    device = plan.guides.device
    probed = {True: dataset.take(list(range(min(plan.batch_size, len(dataset)))))}
    probed[False] = dataset.take(_right(subject, dataset, device))
    least = most = 0.0
    for entry in entries(subject, plan):
        # What sees every image is timed on a whole block; the rest on a few images, whose time is overhead in part.
        some = probed[entry.whole]
        images, labels = some.images.to(device), some.labels.to(device)
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
            seconds = (time.perf_counter() - started) * len(dataset) / max(1, len(some))
            most += factor * seconds
            if entry.whole:
                # AutoAttack on a plain classifier is over when its first 100 steps are.
                least += min(factor, 100.0) * seconds
    return Estimate(least, most)


def _right(subject: Subject, dataset: Dataset, device: torch.device) -> list[int]:
    """The first images that are answered rightly: an attack has nothing to do on the others."""
    some = dataset.take(list(range(min(LOOKED_AT, len(dataset)))))
    with torch.no_grad(), evaluating(subject.model, subject.classifier):
        wrong = fooled(subject.model, some.images.to(device), some.labels.to(device)).tolist()
    standing = [place for place, fell in enumerate(wrong) if not fell]
    return (standing or list(range(len(some))))[:PROBED]


def shortened(attack: Any) -> tuple[Any, float]:
    """A copy that does a small part of the work, and how much more the whole is."""
    if isinstance(attack, AutoAttack):
        # It has no setting to cut. About 1,900 steps and 5,000 queries, a query a third of a step.
        return PGD(norm=attack.threat.norm, eps=attack.threat.eps, steps=1), 3600.0
    made = copy.copy(attack)
    if isinstance(made, AdaptiveAttack):
        made.last_tries = lambda _: ()  # type: ignore[method-assign, assignment]
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
