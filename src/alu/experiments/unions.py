"""Unions: which images still stand when every attack of the adaptive suite has had its turn."""

from __future__ import annotations

import shutil
from typing import Any

from torch import nn

from alu.data.dataset import Dataset
from alu.defense import Defense
from alu.errors import StorageError
from alu.evaluation import metrics
from alu.evaluation.result import Result
from alu.evaluation.run import evaluate, other_networks
from alu.evaluation.subject import Subject
from alu.experiments.base import Found
from alu.experiments.material import Material, Shown
from alu.experiments.verdicts import detector
from alu.loading import READINGS
from alu.models.cards import bundled_name
from alu.purifiers import Purifier
from alu.threat import ThreatModel

EPS = 8 / 255
SUITE = 2
"""Version of the adaptive suite, for every cell that holds a union; 2: images of another network join."""


def defended(material: Material, classifier: str, name: str, reading: str, purifier: Purifier | None = None) -> Defense:
    """The deployed defence of one reading; "purified" has no detector."""
    model, used = material.classifier(classifier), purifier or material.purifier(name)
    if reading == "purified":
        return Defense(model, used, rule="purified")
    rule, reference = READINGS[reading]
    return Defense(model, used, detector(material, classifier, name, reference, purifier), rule, reference)


def union(material: Material, model: nn.Module, shown: Shown, budget: str = "quick") -> Found:
    """Right (1), wrong (0) or rejected (2) for each image: clean, and after all attacks of each level of knowledge."""
    try:
        result = _evaluated(material, model, shown, budget)
    except StorageError:  # what an earlier version of the code left half-way is of no use to this one
        if material.work is None or not material.work.exists():
            raise
        shutil.rmtree(material.work)
        result = _evaluated(material, model, shown, budget)
    found: dict[str, Any] = {"n": len(shown), "budget": budget, "unmet": result.unmet}
    found["failed"] = {record.name: record.failed for record in result.attacks if record.failed}
    found["clean"] = _digits(metrics.outcomes(result.clean, result.labels))
    for level, known in metrics.LEVELS.items():
        found[level] = _digits(metrics.worst(result, known))
    draws = metrics.right_draws(result)
    if draws is not None:  # of a random defence the digits are those of its worst draw
        found["right draws"] = {"clean": draws[0], "adaptive": draws[1]}
    others = other_networks(Subject(model), as_dataset(shown))
    found["other networks"] = [str(bundled_name(other)) for other in others]
    found["attacks"] = {record.name: metrics.broken(result, record) for record in result.attacks}
    return found


def as_dataset(shown: Shown) -> Dataset:
    """The images as the evaluator wants them."""
    return Dataset(shown.images.cpu(), shown.labels.cpu(), shown.classes, shown.key, "test")


def _evaluated(material: Material, model: nn.Module, shown: Shown, budget: str) -> Result:
    """Goes on from the cell's folder, where an interrupted run left one."""
    return evaluate(
        model, as_dataset(shown), ThreatModel("Linf", EPS), "adaptive", budget, seed=material.seed, diagnostics=False,
        bare=False,  # the bare classifier has cells of its own
        out=None if material.work is None else material.work / "union.json",
        watch=lambda what, done, total: material.watch(f"{what} {shown.key}", done, total),
    )  # fmt: skip


def _digits(outcome: dict[int, int]) -> str:
    return "".join(str(outcome[image]) for image in sorted(outcome))
