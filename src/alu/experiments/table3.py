"""table3: Unified ALU beside other methods that act at test time; what is not built here yet is said."""

from __future__ import annotations

from functools import partial
from typing import Any

from alu.attacks import PGD, AutoAttack
from alu.attacks.adaptive.view import smoothly_purified
from alu.experiments.base import Cell, Experiment, Found
from alu.experiments.material import Material, Shown
from alu.experiments.unions import EPS, defended, union
from alu.experiments.verdicts import verdicts
from alu.purifiers import AntiAdversary, Hedge, Identity, Purifier

ROWS: dict[str, tuple[str, str, str]] = {
    "Unified ALU": ("cifar10-unified", "cifar10-vae", "reconstruction"),
    "Unified ALU, input reading": ("cifar10-unified", "cifar10-vae", "input"),
    "Unified, purified only": ("cifar10-unified", "cifar10-vae", "purified"),
    "Adversarial training alone": ("cifar10-at", "none", "purified"),
    "Anti-Adversary": ("cifar10-at", "anti-adversary", "purified"),
    "Hedge Defense": ("cifar10-at", "hedge", "purified"),
    "AWP": ("cifar10-awp", "none", "purified"),
    "PCA-500 + ALU": ("cifar10-standard", "cifar10-pca", "input"),
    "Blur + ALU": ("cifar10-standard", "blur", "input"),
}
"""Classifier, purifier and reading of each row."""


def cells(material: Material) -> list[Cell]:
    """Clean, PGD-20 and AutoAttack on the classifier, PGD-20 through the purifier, and the adaptive union."""
    made: list[Cell] = []
    for row, (classifier, purifier, _) in ROWS.items():
        needs = tuple(name for name in (classifier, purifier) if name.startswith("cifar10-"))
        for column in ("clean", "pgd-20 on f", "pgd-20 through the purifier", "autoattack on f", "adaptive"):
            made.append(Cell(f"{row}/{column}", partial(_cell, material, row, column), needs))
    return made


def _purifier(material: Material, classifier: str, name: str) -> Purifier:
    guided = {"anti-adversary": AntiAdversary, "hedge": Hedge}
    if name in guided:
        made: Purifier = material.once(name, lambda: guided[name](material.classifier(classifier)))
        return made
    return Identity() if name == "none" else material.purifier(name)


def _cell(material: Material, row: str, column: str) -> Found:
    classifier, name, reading = ROWS[row]
    purifier = _purifier(material, classifier, name)
    clean = material.images("cifar10", "test", material.sizes["hard" if "autoattack" in column else "n"])
    if column == "adaptive":
        few = material.images("cifar10", "test", material.sizes["adaptive"])
        return union(material, defended(material, classifier, name, reading, purifier), few)
    model: Any = material.classifier(classifier)
    if "through" in column:
        model = smoothly_purified(defended(material, classifier, name, "purified", purifier))
    attack: Any = PGD(eps=EPS, steps=20, seed=material.seed)
    if "autoattack" in column:
        attack = AutoAttack(eps=EPS, seed=material.seed)
    shown: Shown = clean
    if column != "clean":
        shown = material.attacked(f"{column} of {classifier}, {name}", clean, attack, model)
    return verdicts(material, classifier, name, shown, purifier)


EXPERIMENT = Experiment(
    name="table3",
    title="Table 3: Unified ALU beside other test-time methods",
    question="Is it better than others of its kind, when all of them meet the same attackers?",
    cells=cells,
    full={"calibration": 1_500, "n": 500, "hard": 100, "adaptive": 50},
    quick={"calibration": 200, "n": 30, "hard": 4, "adaptive": 4},
    why="AutoAttack and the adaptive suite take most of the time; see table 2.",
)
