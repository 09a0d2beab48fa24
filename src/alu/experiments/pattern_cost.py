"""pattern-cost: are attacks that hold the true logit up slower and weaker, as a footnote of the paper says?"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from torch import Tensor, nn

from alu.attacks import PGD, CWLinf
from alu.attacks.adaptive import Pattern
from alu.attacks.adaptive.pattern import case_three
from alu.defense import Defense, batched_logits
from alu.experiments.base import Cell, Experiment, Found
from alu.experiments.material import Material
from alu.experiments.unions import EPS
from alu.experiments.verdicts import digits
from alu.purifiers import Identity

CLASSIFIERS = ("cifar10-standard", "cifar10-at")


class Counting(nn.Module):
    """A network that counts the images it is shown, and those whose gradient was wanted."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network, self.forwards, self.backwards = network, 0, 0

    def forward(self, images: Tensor) -> Tensor:
        """The network's logits."""
        self.forwards += len(images)
        self.backwards += len(images) if images.requires_grad else 0
        logits: Tensor = self.network(images)
        return logits


def cells(material: Material) -> list[Cell]:
    """The common attacks and the pattern-violating one, of one try and of all its tries, with equal steps."""
    same: dict[str, Any] = {"eps": EPS, "seed": material.seed, "steps": material.sizes["steps"]}
    # Pattern stops when all of its images are fooled; PGD that does the same is what its cost is compared with.
    attacks = {
        "pgd": PGD(**same),
        "pgd, stopped when fooled": PGD(keep="fooled", **same),
        "margin pgd": CWLinf(**same),
        "pattern, one try": Pattern(penalties=(10.0,), targets=1, **same),
        "pattern": Pattern(**same),
    }
    return [
        Cell(f"{classifier}/{name}", partial(_cell, material, classifier, name, attack), (classifier,), version=2)
        for classifier in CLASSIFIERS
        for name, attack in attacks.items()
    ]


def _cell(material: Material, classifier: str, name: str, attack: Any) -> Found:
    """Which images are fooled, which in case 3, and what it cost on those that are right clean."""
    clean = material.images("cifar10", "test", material.sizes["n"])
    network = material.classifier(classifier)
    before = batched_logits(network, clean.images)
    right = before.argmax(1) == clean.labels
    counted = Counting(material.classifier(classifier))
    started = time.perf_counter()
    # To an attack that needs a defence the bare classifier is one that purifies nothing.
    target = Defense(counted, Identity(), rule="purified") if isinstance(attack, Pattern) else counted
    found = clean.images.clone()
    found[right] = attack(target, clean.images[right], clean.labels[right])
    seconds = time.perf_counter() - started
    after = batched_logits(network, found)
    return {
        "n": len(clean), "right clean": digits(right), "fooled": digits(right & (after.argmax(1) != clean.labels)),
        "case 3": digits(right & case_three(before, after, clean.labels)), "seconds": round(seconds, 2),
        "forwards": counted.forwards, "backwards": counted.backwards,
    }  # fmt: skip


EXPERIMENT = Experiment(
    name="pattern-cost",
    title="Attacks that hold the true logit up",
    question="Are attacks that violate the usual pattern of logit changes slower, and do they succeed less often?",
    cells=cells,
    full={"n": 200, "steps": 20},
    quick={"n": 40, "steps": 20},
    differs="The paper reports that it tried and gives no figures.",
    why="Success rates are near 0 or 1; 200 images separate them.",
)
