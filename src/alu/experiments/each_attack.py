"""each-attack: each adaptive attack alone, on all images, against every reading: which attack is meant for what."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from alu.attacks import PGD
from alu.attacks import adaptive as informed
from alu.attacks.adaptive.pattern import case_three
from alu.attacks.adaptive.view import smoothly_purified
from alu.evaluation.run import other_networks
from alu.evaluation.subject import Subject
from alu.evaluation.suite import BUDGETS
from alu.experiments.base import Cell, Experiment, Found
from alu.experiments.material import Material
from alu.experiments.unions import EPS, as_dataset, defended
from alu.experiments.verdicts import digits

CLASSIFIER, ROBUST = "cifar10-standard", "cifar10-at"
SYSTEMS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "cifar10-vae": (CLASSIFIER, "cifar10-vae", ("input", "reconstruction", "purified", "abstain")),
    "cifar10-pca": (CLASSIFIER, "cifar10-pca", ("input", "purified", "abstain")),
    f"cifar10-vae on {ROBUST}": (ROBUST, "cifar10-vae", ("input", "reconstruction")),
}
"""Classifier, purifier and the readings they have; a projection has no reconstruction."""
NAMES = ("Decoy", "Boost", "Direct", "Pattern", "Trajectory", "Stealth", "Match", "Soft", "Transfer", "Query")
FEW = ("Decoy", "Boost", "Direct")
"""Those that are tried on the robust classifier, where each takes minutes."""
BUDGET = "quick"
VERSIONS = {
    "Pattern": 4, "Decoy": 2, "Soft": 2, "Query": 2, "Transfer": 2, "Boost": 3, "Direct": 2, "Trajectory": 2,
}  # fmt: skip
"""Attacks that have become stronger: pattern looks for its case first, decoy refreshes what is deployed, soft and query
know the detector under abstain and attack images that their twin gets wrong, transfer has another network, and searches
lose no success between two hard tests."""


def cells(material: Material) -> list[Cell]:
    """Clean images, PGD-20 through the purifier, and every adaptive attack."""
    made = []
    for system, (classifier, purifier, readings) in SYSTEMS.items():
        if classifier == ROBUST and not material.sizes["robust"]:
            continue
        for reading in readings:
            for name in ("clean", "surrogate PGD-20", *(NAMES if classifier == CLASSIFIER else FEW)):
                run = partial(alone, material, system, reading, name)
                needs, version = (classifier, purifier), VERSIONS.get(name, 1)
                made.append(Cell(f"{system}, {reading}/{name}", run, needs, version))
    return made


def alone(material: Material, system: str, reading: str, name: str) -> Found:
    """Right (1), wrong (0) or rejected (2) for each image, and whether it was flagged, under this attack alone."""
    classifier, purifier, _ = SYSTEMS[system]
    defense = defended(material, classifier, purifier, reading)
    clean = material.images("cifar10", "test", material.sizes["n"])
    same: dict[str, Any] = {"eps": EPS, "seed": material.seed}
    images = clean.images
    if name == "surrogate PGD-20":
        images = PGD(steps=20, **same)(smoothly_purified(defense), images, clean.labels)
    elif name in NAMES:
        if name == "Transfer":
            same["others"] = other_networks(Subject(defense), as_dataset(clean))
        attack = getattr(informed, name)(steps=BUDGETS[BUDGET], budget=BUDGET, **same)
        images = attack(defense, images, clean.labels, watch=partial(material.watch, f"{reading}, {name}"))
    decision = defense.decide(images)
    outcome = "".join(map(str, decision.outcome(clean.labels).tolist()))
    found: Found = {"n": len(clean), "budget": BUDGET, "outcome": outcome, "flagged": digits(decision.flagged)}
    if name == "Pattern":
        # What the rule compares with: in the reconstruction reading not the bare classifier's logits.
        with torch.no_grad():
            before, after = defense.evidence(clean.images).pre_logits, defense.evidence(images).pre_logits
        found["case 3"] = digits(case_three(before, after, clean.labels))
    return found


EXPERIMENT = Experiment(
    name="each-attack",
    title="Each adaptive attack alone",
    question="Which attack that knows the defence is meant for which reading of it?",
    cells=cells,
    full={"calibration": 2_500, "n": 100, "robust": 1},
    quick={"calibration": 200, "n": 2, "robust": 0},
    differs="Not in the paper.",
    why="90 attacks on a purifier of 20 steps; budget quick, and only some of them on the robust classifier.",
    leaves_out="Left out: the robust classifier, on which each attack takes minutes.",
)
