"""table1: the denoising U-Net and ALU on the standard classifier, against four attacks that know the classifier."""

from __future__ import annotations

from functools import partial
from typing import Any

from alu.attacks import PGD, AutoAttack, CarliniWagnerL2, CWLinf
from alu.experiments.base import Cell, Experiment, Found
from alu.experiments.material import Material, Shown
from alu.experiments.unions import EPS, SUITE, defended, union
from alu.experiments.verdicts import verdicts

CLASSIFIER, DENOISER = "cifar10-standard", "cifar10-unet"
READINGS = ("bare", "purified", "input")


def cells(material: Material) -> list[Cell]:
    """Clean, one cell for each attack, the C&W attack in L2 in the variants that the paper's 41 % could mean, and what
    is not in the paper: attackers who know the denoiser and the rule."""
    seed, n = material.seed, material.sizes["n"]
    attacks: dict[str, tuple[Any, int]] = {
        "pgd-20": (PGD(eps=EPS, steps=20, seed=seed), n),
        "cw-linf": (CWLinf(eps=EPS, steps=20, seed=seed), n),
        "cw-l2, c fixed": (CarliniWagnerL2(searches=1, steps=50, lr=0.01, c=1.0), n),
        "cw-l2, c searched": (
            CarliniWagnerL2(searches=material.sizes["searches"], steps=material.sizes["steps"]),
            material.sizes["searched"],
        ),
        "autoattack": (AutoAttack(eps=EPS, seed=seed), material.sizes["hard"]),
    }
    made = [Cell("clean", partial(_clean, material), (CLASSIFIER, DENOISER))]
    for name, (attack, count) in attacks.items():
        made.append(Cell(name, partial(_attacked, material, name, attack, count), (CLASSIFIER, DENOISER)))
    for reading in READINGS:
        made.append(Cell(f"adaptive, {reading}", partial(_adaptive, material, reading), (CLASSIFIER, DENOISER), SUITE))
    return made


def _clean(material: Material) -> Found:
    return verdicts(material, CLASSIFIER, DENOISER, material.images("cifar10", "test", material.sizes["n"]))


def _attacked(material: Material, name: str, attack: Any, count: int) -> Found:
    clean = material.images("cifar10", "test", count)
    shown: Shown = material.attacked(name, clean, attack, material.classifier(CLASSIFIER))
    found = verdicts(material, CLASSIFIER, DENOISER, shown)
    if name.startswith("cw-l2"):
        lengths = (shown.images - clean.images).flatten(1).norm(dim=1)
        found["lengths"] = [round(float(length), 4) for length in lengths]
    return {**found, "knowledge": "oblivious"}


def _adaptive(material: Material, reading: str) -> Found:
    bare = reading == "bare"
    subject = material.classifier(CLASSIFIER) if bare else defended(material, CLASSIFIER, DENOISER, reading)
    return union(material, subject, material.images("cifar10", "test", material.sizes["adaptive"]))


EXPERIMENT = Experiment(
    name="table1",
    title="Table 1: a denoising U-Net and ALU",
    question="Does comparing logits before and after a denoiser recover more labels than the denoiser alone?",
    cells=cells,
    full={"calibration": 2_500, "n": 500, "hard": 500, "searched": 200, "searches": 6, "steps": 150, "adaptive": 100},
    quick={"calibration": 200, "n": 50, "hard": 50, "searched": 20, "searches": 3, "steps": 50, "adaptive": 4},
    differs=(
        "The paper trains on PGD-20 images of a ResNet-50 for 100 epochs; here it is PGD-3 images of a narrow "
        "ResNet-18 for 3. Its ALU row says nothing of a detector: both the deployed answer and the answer if "
        "all were flagged are shown."
    ),
    why="500 test images come with the package; the search for the smallest change takes 45 times as long as PGD-20.",
)
