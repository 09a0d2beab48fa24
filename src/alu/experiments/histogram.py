"""histogram: the score sum |Δ| on training, test and attacked images, with the paper's threshold and ours."""

from __future__ import annotations

from functools import partial
from typing import Any

from alu.attacks import AutoAttack
from alu.attacks.adaptive.view import smoothly_purified
from alu.detectors import LogitShift
from alu.experiments.base import Cell, Experiment, Found
from alu.experiments.descents import VAE, image_sets
from alu.experiments.material import Material, Shown
from alu.experiments.unions import EPS, defended
from alu.experiments.verdicts import evidence

CLASSIFIER = "cifar10-standard"
KINDS = (
    "train",
    "calibration",
    "clean",
    "pgd-20 on f",
    "pgd-20 on f(D(E))",
    "autoattack on f",
    "autoattack on f(D(E))",
)


def cells(material: Material) -> list[Cell]:
    """One cell for each kind of image; thresholds follow from the scores of two of them."""
    return [Cell(kind, partial(_scores, material, kind), (CLASSIFIER, VAE)) for kind in KINDS]


def _shown(material: Material, kind: str) -> Shown:
    if kind == "train":
        return material.images("cifar10", "train", material.sizes["train"])
    if kind == "calibration":
        return material.images("cifar10", "calibration", material.sizes["calibration"])
    if kind.startswith("autoattack"):
        clean = material.images("cifar10", "test", material.sizes["n"])
        attack = AutoAttack(eps=EPS, seed=material.seed)
        model: Any = material.classifier(CLASSIFIER)
        if kind != "autoattack on f":
            model = smoothly_purified(defended(material, CLASSIFIER, f"{VAE}@0", "purified"))
        shown = material.attacked(kind, clean, attack, model)
        # It leaves alone what is wrong already: a detector is not to be blamed for clean images.
        moved = (shown.images != clean.images).flatten(1).any(1)
        return Shown(f"{shown.key}, moved", shown.images[moved], shown.labels[moved])
    return image_sets(material, CLASSIFIER, material.sizes["n"])[kind]


def _scores(material: Material, kind: str) -> Found:
    """The score of each image in both readings."""
    shown = _shown(material, kind)
    found: Found = {"n": len(shown)}
    for reading, seen in evidence(material, CLASSIFIER, VAE, shown).items():
        found[reading] = [round(float(score), 4) for score in LogitShift().score(seen)]
    return found


EXPERIMENT = Experiment(
    name="histogram",
    title="The score on clean and attacked images",
    question="Do training and test scores overlap, and are clean and attacked scores apart?",
    cells=cells,
    full={"n": 500, "train": 2_500, "calibration": 2_500},
    quick={"n": 40, "train": 200, "calibration": 200},
    differs=(
        "The paper shows one histogram and does not say what the logits before purification are those of: "
        "both readings are shown. Its threshold comes from training images."
    ),
    why="500 test images come with the package; all held-out ones, and as many training images, stand beside them.",
)
