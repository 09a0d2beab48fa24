"""threats: one row for each kind of attacker, for the card in the README."""

from __future__ import annotations

from functools import partial
from typing import Any

from alu.attacks import MIM, PGD
from alu.attacks.adaptive import Query
from alu.attacks.adaptive.view import smoothly_purified
from alu.defense import Defense
from alu.experiments.base import Cell, Experiment, Found
from alu.experiments.material import Material
from alu.experiments.unions import EPS, SUITE, defended, union
from alu.purifiers import Identity

CLASSIFIER, VAE, OTHER = "cifar10-standard", "cifar10-vae", "cifar10-unified"
ROWS = ("no attack", "oblivious", "transfer", "query", "surrogate", "adaptive")


def cells(material: Material) -> list[Cell]:
    """Every attacker against both readings and against the purified answer; and against the bare classifier."""
    made = []
    for reading in ("bare", "input", "reconstruction", "purified"):
        for row in ROWS:
            if reading == "bare" and row == "surrogate":  # which is about the purifier
                continue
            needs = (CLASSIFIER, VAE, OTHER) if row == "transfer" else (CLASSIFIER, VAE)
            version = SUITE if row == "adaptive" else 1
            made.append(Cell(f"{reading}/{row}", partial(_cell, material, reading, row), needs, version))
    return made


def _cell(material: Material, reading: str, row: str) -> Found:
    bare = Defense(material.classifier(CLASSIFIER), Identity(), rule="purified")
    defense = bare if reading == "bare" else defended(material, CLASSIFIER, VAE, reading)
    shown = material.images("cifar10", "test", material.sizes["query" if row == "query" else "n"])
    if row == "adaptive":
        return union(material, material.classifier(CLASSIFIER) if reading == "bare" else defense, shown)
    same: dict[str, Any] = {"eps": EPS, "seed": material.seed}
    attacks: dict[str, tuple[Any, Any]] = {
        "oblivious": (PGD(steps=20, **same), material.classifier(CLASSIFIER)),
        "query": (Query(steps=20, budget="quick", **same), defense),
        "surrogate": (PGD(steps=20, **same), smoothly_purified(defense)),
    }
    if row == "transfer":
        attacks[row] = (MIM(steps=20, **same), material.classifier(OTHER))
    images = shown.images
    if row in attacks:
        attack, model = attacks[row]
        # Who attacks something else than the defence makes the same images for all of its readings.
        target = f"{row} on {reading}" if row == "query" else row
        images = material.attacked(target, shown, attack, model).images
    before, after = defense.decide(shown.images), defense.decide(images)
    outcome = ["".join(map(str, decision.outcome(shown.labels).tolist())) for decision in (before, after)]
    return {"n": len(shown), "clean": outcome[0], "attacked": outcome[1]}


EXPERIMENT = Experiment(
    name="threats",
    title="The threat-model card",
    question="What does the bundled defence withstand, by what its attacker knows?",
    cells=cells,
    full={"calibration": 2_500, "n": 100, "query": 50},
    quick={"calibration": 200, "n": 8, "query": 2},
    differs="Not in the paper, whose attackers are the oblivious and the surrogate one.",
    why="A query attack asks hundreds of times for each image, and every question is purified.",
)
