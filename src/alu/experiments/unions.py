"""Unions: which images still stand when every attack of the adaptive suite has had its turn."""

from __future__ import annotations

from typing import Any

from torch import nn

from alu.data.dataset import Dataset
from alu.defense import Defense
from alu.evaluation import metrics
from alu.evaluation.run import evaluate
from alu.experiments.base import Found
from alu.experiments.defenses import READINGS
from alu.experiments.material import Material, Shown
from alu.experiments.verdicts import detector
from alu.purifiers import Purifier
from alu.threat import ThreatModel

EPS = 8 / 255


def defended(material: Material, classifier: str, name: str, reading: str, purifier: Purifier | None = None) -> Defense:
    """The deployed defence of one reading; "purified" has no detector."""
    model, used = material.classifier(classifier), purifier or material.purifier(name)
    if reading == "purified":
        return Defense(model, used, rule="purified")
    rule, reference = READINGS[reading]
    return Defense(model, used, detector(material, classifier, name, reference, purifier), rule, reference)


def union(material: Material, model: nn.Module, shown: Shown, budget: str = "quick") -> Found:
    """Right (1), wrong (0) or rejected (2) for each image: clean, and after all attacks of each level of knowledge."""
    some = Dataset(shown.images.cpu(), shown.labels.cpu(), _classes(shown), shown.key, "test")
    result = evaluate(
        model, some, ThreatModel("Linf", EPS), "adaptive", budget, seed=material.seed, diagnostics=False,
        watch=lambda what, done, total: material.watch(f"{what} {shown.key}", done, total),
    )  # fmt: skip
    found: dict[str, Any] = {"n": len(shown), "budget": budget, "unmet": result.unmet}
    found["failed"] = {record.name: record.failed for record in result.attacks if record.failed}
    found["clean"] = _digits(metrics.outcomes(result.clean, result.labels))
    for level, known in metrics.LEVELS.items():
        found[level] = _digits(metrics.worst(result, known))
    found["attacks"] = {record.name: metrics.broken(result, record) for record in result.attacks}
    return found


def _digits(outcome: dict[int, int]) -> str:
    return "".join(str(outcome[image]) for image in sorted(outcome))


def _classes(shown: Shown) -> tuple[str, ...]:
    return tuple(map(str, range(int(shown.labels.max()) + 1)))
