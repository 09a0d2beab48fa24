"""bpda: BPDA-EOT on plug-in, unified and asymmetric unified ALU: does asymmetry stop it?"""

from __future__ import annotations

from functools import partial
from typing import Any

from alu.attacks import BPDAEOT, PGD
from alu.attacks.adaptive.view import smoothly_purified
from alu.experiments.base import Cell, Experiment, Found
from alu.experiments.material import Material
from alu.experiments.unions import EPS, SUITE, defended, union

SYSTEMS = {
    "plug-in": ("cifar10-standard", "cifar10-vae"),
    "unified": ("cifar10-unified", "cifar10-vae"),
    "asymmetric": ("cifar10-asymmetric", "cifar10-asymmetric"),
}
"""Classifier and purifier; the asymmetric classifier reads the features of its own VAE."""


def cells(material: Material) -> list[Cell]:
    """Clean, BPDA-EOT and the surrogate attack on every system and reading it has, and the adaptive union."""
    made = []
    for system, (classifier, purifier) in SYSTEMS.items():
        readings = ("reconstruction",) if system == "asymmetric" else ("input", "reconstruction")
        for reading in (*readings, "purified"):
            for column in ("clean", "bpda-eot", "surrogate pgd", "adaptive"):
                run = partial(_cell, material, system, reading, column)
                needs, version = tuple(dict.fromkeys((classifier, purifier))), SUITE if column == "adaptive" else 1
                made.append(Cell(f"{system}, {reading}/{column}", run, needs, version))
    return made


def _cell(material: Material, system: str, reading: str, column: str) -> Found:
    classifier, purifier = SYSTEMS[system]
    defense = defended(material, classifier, purifier, reading)
    shown = material.images("cifar10", "test", material.sizes["adaptive" if column == "adaptive" else "n"])
    if column == "adaptive":
        return union(material, defense, shown)
    steps, seed = material.sizes["steps"], material.seed
    attacks: dict[str, tuple[Any, Any]] = {
        # The defence is deterministic, so that one draw is the expectation.
        "bpda-eot": (BPDAEOT(eps=EPS, steps=steps, draws=1, loss="margin", seed=seed), defense),
        "surrogate pgd": (PGD(eps=EPS, steps=steps, seed=seed), smoothly_purified(defense)),
    }
    images = shown.images
    if column in attacks:
        attack, model = attacks[column]
        # The surrogate knows nothing of readings.
        target = f"{system}, {reading}" if column == "bpda-eot" else system
        images = material.attacked(f"{column} on {target}", shown, attack, model).images
    decision = defense.decide(images)
    outcome = "".join(map(str, decision.outcome(shown.labels).tolist()))
    return {"n": len(shown), "outcome": outcome, "flagged": "".join(str(int(flag)) for flag in decision.flagged)}


EXPERIMENT = Experiment(
    name="bpda",
    title="BPDA-EOT and asymmetry",
    question="Is an asymmetric generator, whose output is no image, safe from BPDA-EOT?",
    cells=cells,
    full={"calibration": 2_500, "n": 200, "steps": 40, "adaptive": 50},
    quick={"calibration": 200, "n": 8, "steps": 10, "adaptive": 4},
    differs=(
        "The paper argues by the shapes of input and output and gives no figures. An attacker needs some "
        "differentiable way from image to features, not equal shapes: encoder and inner decoder are one."
    ),
    why="Every attack step purifies every image.",
)
