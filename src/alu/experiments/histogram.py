"""histogram: the score sum |Δ| on training, test and attacked images, with the paper's threshold and ours."""

from __future__ import annotations

from functools import partial

import torch

from alu.attacks import AutoAttack
from alu.detectors import LogitShift
from alu.detectors.base import conformal_threshold
from alu.experiments.base import Cell, Experiment, Found
from alu.experiments.descents import CLASSIFIER, VAE, image_sets
from alu.experiments.material import Material, Shown
from alu.experiments.unions import EPS
from alu.experiments.verdicts import evidence

KINDS = ("train", "calibration", "clean", "pgd-20 on f", "pgd-20 on f(D(E))", "autoattack on f")


def cells(material: Material) -> list[Cell]:
    """One cell for each kind of image, and the two thresholds, which need two of them."""
    made = [Cell(kind, partial(_scores, material, kind), (CLASSIFIER, VAE)) for kind in KINDS]
    return [*made, Cell("thresholds", partial(_thresholds, material), (CLASSIFIER, VAE))]


def _shown(material: Material, kind: str) -> Shown:
    if kind == "train":
        return material.images("cifar10", "train", material.sizes["train"])
    if kind == "calibration":
        return material.images("cifar10", "calibration", material.sizes["calibration"])
    if kind == "autoattack on f":
        clean = material.images("cifar10", "test", material.sizes["n"])
        attack = AutoAttack(eps=EPS, seed=material.seed)
        shown = material.attacked(kind, clean, attack, material.classifier(CLASSIFIER))
        # It leaves alone what is wrong already: a detector is not to be blamed for clean images.
        moved = (shown.images != clean.images).flatten(1).any(1)
        return Shown(f"{shown.key}, moved", shown.images[moved], shown.labels[moved])
    return image_sets(material)[kind]


def _scores(material: Material, kind: str) -> Found:
    """The score of each image in both readings."""
    shown = _shown(material, kind)
    found: Found = {"n": len(shown)}
    for reading, seen in evidence(material, CLASSIFIER, VAE, shown).items():
        found[reading] = [round(float(score), 4) for score in LogitShift().score(seen)]
    return found


def _thresholds(material: Material) -> Found:
    """The 99.5 % quantile of training scores, as in the paper, and the conformal one of held-out scores."""
    found: Found = {}
    for reading in ("input", "reconstruction"):
        train, held = (torch.tensor(_scores(material, kind)[reading]).double() for kind in ("train", "calibration"))
        found[reading] = {
            "train": round(float(torch.quantile(train, 0.995)), 4),
            "held out": round(float(conformal_threshold(held.sort().values, 0.005)), 4),
        }
    return found


EXPERIMENT = Experiment(
    name="histogram",
    title="The score on clean and attacked images",
    question="Do training and test scores overlap, and are clean and attacked scores apart?",
    cells=cells,
    full={"n": 500, "train": 1_500, "calibration": 1_500},
    quick={"n": 40, "train": 200, "calibration": 200},
    why="500 test images and 1,500 held-out ones come with the package; as many training images stand beside them.",
)
