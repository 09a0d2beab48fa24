"""artefacts: five experiments that explain the paper's effect (E1 to E5)."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from alu.attacks import PGD
from alu.defense import batched_logits
from alu.experiments.base import Cell, Experiment, Found
from alu.experiments.material import Material, Shown
from alu.experiments.unions import EPS
from alu.experiments.verdicts import detector, digits, evidence, verdicts
from alu.loading import load_purifier

CLASSIFIER, VAE = "cifar10-standard", "cifar10-vae"
CONTROLS = {
    "VAE": VAE, "blur 0.5": "blur@0.5", "blur 1": "blur@1", "median 3": "median@3", "jpeg 75": "jpeg@75",
    "jpeg 25": "jpeg@25", "pca 500": "cifar10-pca", "pca 100": "cifar10-pca@100",
}  # fmt: skip
"""Purifiers in the VAE's place, by the name of their row."""


def cells(material: Material) -> list[Cell]:
    """E1 and E5 read the same outcomes; E2 swaps labels; E3 decodes them; E4 replaces the VAE."""
    needs = (CLASSIFIER, VAE)
    made = [
        Cell("E1 and E5", partial(_split, material), needs),
        Cell("E2", partial(_swapped, material), needs, version=2),
        Cell("E3", partial(_decoded, material), (CLASSIFIER,)),
    ]
    return made + [Cell(f"E4/{name}", partial(_control, material, name), (*needs, "cifar10-pca")) for name in CONTROLS]


def _pgd(material: Material, shown: Shown, labels: Tensor | None = None, what: str = "pgd-20") -> Shown:
    attack = PGD(eps=EPS, steps=20, seed=material.seed)
    return material.attacked(what, shown, attack, material.classifier(CLASSIFIER), labels)


def _split(material: Material) -> Found:
    """ALU's answers under attack, beside whether the clean answer was right (E1) and the attack succeeded (E5)."""
    clean = material.images("cifar10", "test", material.sizes["n"])
    return {
        "clean": verdicts(material, CLASSIFIER, VAE, clean),
        "attacked": verdicts(material, CLASSIFIER, VAE, _pgd(material, clean)),
    }


def _swapped(material: Material) -> Found:
    """The attack is told a wrong label y' (the next class): how often is the answer y', and how often the true one?
    The rank of y' among the clean logits (0: highest) tells whether it was a likely confusion."""
    clean = material.images("cifar10", "test", material.sizes["n"])
    other = (clean.labels + 1) % 10
    shown = _pgd(material, clean, other, "pgd-20 told the next class")
    seen = evidence(material, CLASSIFIER, VAE, shown)["input"]
    fitted = detector(material, CLASSIFIER, VAE, "input")
    flagged = fitted.test(seen).flagged
    answer = torch.where(flagged[:, None], seen.change, seen.post_logits).argmax(1)
    logits = material.logits(CLASSIFIER, clean.key, clean.images)
    rank = (logits > logits.gather(1, other[:, None])).sum(1)
    return {
        "n": len(clean), "answer is the swapped label": digits(answer == other),
        "answer is the true label": digits(answer == clean.labels), "flagged": digits(flagged),
        "rank": "".join(map(str, rank.tolist())),
    }  # fmt: skip


def _decoded(material: Material) -> Found:
    """The label from the perturbation alone, without the picture: by a linear probe that was fitted on perturbations of
    other images, and by the classifier itself, shown the perturbation's negative, enlarged, on grey."""
    fit = material.images("cifar10", "calibration", material.sizes["probe"])
    test = material.images("cifar10", "test", material.sizes["n"])
    learn, judge = (_pgd(material, shown).images - shown.images for shown in (fit, test))
    probe = _probe(learn.flatten(1) / EPS, fit.labels, material.seed)
    with torch.no_grad():
        guess = (judge.flatten(1) / EPS @ probe).argmax(1)
        grey = (0.5 - material.sizes["enlarged"] * judge).clamp(0, 1)
        seen = batched_logits(material.classifier(CLASSIFIER), grey).argmax(1)
    return {
        "n": len(test), "fitted on": len(fit), "linear probe": digits(guess == test.labels),
        "classifier on the negative": digits(seen == test.labels),
    }  # fmt: skip


def _probe(inputs: Tensor, labels: Tensor, seed: int, steps: int = 300) -> Tensor:
    """Weights [pixels, 10] of a logistic regression with weight decay, by full-batch gradient descent with momentum."""
    weights = torch.zeros((inputs.shape[1], 10), requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=0.01, momentum=0.9, weight_decay=1e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(inputs.cpu() @ weights, labels.cpu())
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return weights.detach().to(inputs.device)


def _control(material: Material, name: str) -> Found:
    """The same attack and rule with another purifier."""
    clean = material.images("cifar10", "test", material.sizes["n"])
    purifier = load_purifier(CONTROLS[name]).to(material.device)
    found = {
        kind: verdicts(material, CLASSIFIER, name, shown, purifier)
        for kind, shown in (("clean", clean), ("attacked", _pgd(material, clean)))
    }
    return {"n": len(clean), **found}


EXPERIMENT = Experiment(
    name="artefacts",
    title="What explains the effect",
    question="Where does accuracy under attack above clean accuracy come from, and is the VAE needed for it?",
    cells=cells,
    full={"calibration": 2_500, "n": 500, "probe": 1_500, "enlarged": 4},
    quick={"calibration": 200, "n": 40, "probe": 200, "enlarged": 4},
    differs="Not in the paper.",
    why="500 test images come with the package.",
)
