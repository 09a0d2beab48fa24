"""table3: Unified ALU beside other methods that act at test time; what is not built here yet is said."""

from __future__ import annotations

from functools import partial
from typing import Any

from alu.attacks import PGD, AutoAttack, with_grad_mode
from alu.attacks.adaptive.view import smoothly_purified
from alu.experiments.base import Cell, Experiment, Found
from alu.experiments.material import Material
from alu.experiments.unions import EPS, SUITE, defended, union
from alu.experiments.verdicts import verdicts
from alu.loading import GUIDED, load_purifier
from alu.purifiers import Purifier

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
ROBUST = ("cifar10-at", "cifar10-awp")
"""Not in the quick form: AutoAttack alone takes longer than five minutes on what withstands it."""
COLUMNS = ("clean", "pgd-20 on f", "pgd-20 through", "autoattack on f", "autoattack through", "adaptive")


def cells(material: Material) -> list[Cell]:
    """Clean, PGD-20 and AutoAttack on the classifier and through the purifier, and the adaptive union."""
    made: list[Cell] = []
    for row, (classifier, purifier, _) in ROWS.items():
        if classifier in ROBUST and not material.sizes["robust"]:
            continue
        needs = tuple(name for name in (classifier, purifier) if name.startswith("cifar10-"))
        for column in COLUMNS:
            # AutoAttack's thousands of steps through twenty steps of a classifier's own gradient are out of reach here.
            if not (column == "autoattack through" and purifier in GUIDED):
                version = SUITE if column == "adaptive" else 1
                made.append(Cell(f"{row}/{column}", partial(_cell, material, row, column), needs, version))
    return made


def _purifier(material: Material, classifier: str, name: str) -> Purifier:
    if name not in GUIDED:
        return material.purifier(name)
    network = material.classifier(classifier)
    made: Purifier = material.once((name, classifier), lambda: load_purifier(name, classifier=network))
    return made


def _through(material: Material, classifier: str, name: str, purifier: Purifier) -> Any:
    """What an attack through the purifier differentiates: the purifier's stand-in or, where the purifier follows the
    classifier's gradient and its stand-in would be the image itself, the gradient at what is handed out (BPDA)."""
    defense = defended(material, classifier, name, "purified", purifier)
    return with_grad_mode(defense, "bpda") if name in GUIDED else smoothly_purified(defense)


def _cell(material: Material, row: str, column: str) -> Found:
    classifier, name, reading = ROWS[row]
    purifier = _purifier(material, classifier, name)
    if column == "adaptive":
        few = material.images("cifar10", "test", material.sizes["adaptive"])
        # A classifier alone meets the suite for classifiers, which has targeted APGD where others have the rest.
        bare = name == "none"
        subject = material.classifier(classifier) if bare else defended(material, classifier, name, reading, purifier)
        return union(material, subject, few)
    hard = "autoattack" in column
    shown = material.images("cifar10", "test", material.sizes["hard" if hard else "n"])
    if column != "clean":
        model: Any = material.classifier(classifier)
        if "through" in column:
            model = _through(material, classifier, name, purifier)
        same: dict[str, Any] = {"eps": EPS, "seed": material.seed}
        attack: Any = AutoAttack(**same) if hard else PGD(steps=20, **same)
        # What is made on f, and through nothing, is the same for every purifier.
        through = f"{column}, {name}" if "through" in column and name != "none" else column.replace("through", "on f")
        shown = material.attacked(f"{through} of {classifier}", shown, attack, model)
    return verdicts(material, classifier, f"{name} of {classifier}" if name in GUIDED else name, shown, purifier)


EXPERIMENT = Experiment(
    name="table3",
    title="Table 3: Unified ALU beside other test-time methods",
    question="Is it better than others of its kind, when all of them meet the same attackers?",
    cells=cells,
    full={"calibration": 2_500, "n": 500, "hard": 100, "adaptive": 50, "robust": 1},
    quick={"calibration": 200, "n": 30, "hard": 4, "adaptive": 4, "robust": 0},
    differs=(
        "The paper takes most rows from other papers, on larger networks with more data, and under attackers "
        "of different knowledge. Here all rows meet PGD-20 on f and through the purifier and an adaptive suite, which "
        "for a classifier alone is one for classifiers; Anti-Adversary and Hedge stand on our own robust classifier."
    ),
    why="AutoAttack and the adaptive suite take most of the time; see table 2.",
    leaves_out="Left out: robust classifiers, on which AutoAttack alone takes longer than five minutes.",
)
