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

CLASSIFIER = "cifar10-standard"
PURIFIERS = {
    "cifar10-vae": ("input", "reconstruction", "purified", "abstain"),
    "cifar10-pca": ("input", "purified", "abstain"),
}
"""The readings each purifier has; a projection has no reconstruction."""
NAMES = ("Decoy", "Boost", "Direct", "Pattern", "Trajectory", "Stealth", "Match", "Soft", "Transfer", "Query")
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
    for purifier, readings in PURIFIERS.items():
        for reading in readings:
            for name in ("clean", "surrogate PGD-20", *NAMES):
                run = partial(alone, material, purifier, reading, name)
                key = f"{purifier}, {reading}/{name}"
                made.append(Cell(key, run, (CLASSIFIER, purifier), VERSIONS.get(name, 1)))
    return made


def alone(material: Material, purifier: str, reading: str, name: str) -> Found:
    """Right (1), wrong (0) or rejected (2) for each image, and whether it was flagged, under this attack alone."""
    defense = defended(material, CLASSIFIER, purifier, reading)
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
    full={"calibration": 2_500, "n": 100},
    quick={"calibration": 200, "n": 2},
    differs="Not in the paper.",
    why="80 attacks on a purifier of 20 steps; budget quick.",
)
