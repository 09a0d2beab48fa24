"""features: penultimate features split as in the paper, and how much of a logit's change its equation explains."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from alu.attacks import PGD
from alu.experiments.base import Cell, Experiment, Found
from alu.experiments.material import Material
from alu.experiments.unions import EPS
from alu.experiments.verdicts import rounded

CLASSIFIERS = ("cifar10-standard", "cifar10-at")
KEPT = (0.5, 0.8, 0.95)
"""A useful feature is robust if it keeps this share of what it gave to the true logit; the paper gives no figure."""


def cells(material: Material) -> list[Cell]:
    """One cell for each classifier."""
    return [Cell(name, partial(_cell, material, name), (name,)) for name in CLASSIFIERS]


def _cell(material: Material, name: str) -> Found:
    """For each successful attack: the change of the true and of the adversarial logit, and the part of it that robust,
    non-robust and irrelevant features carry. The parts add up exactly; the paper says that the second is nearly all."""
    clean = material.images("cifar10", "test", material.sizes["n"])
    network = cast(Any, material.classifier(name))
    shown = material.attacked(f"pgd-20 on {name}", clean, PGD(eps=EPS, steps=20, seed=material.seed), network)
    with torch.no_grad():
        before, after = (_features(network, images) for images in (clean.images, shown.images))
        weights, labels = network.linear.weight, clean.labels
        answer = network.linear(after).argmax(1)
        success = (network.linear(before).argmax(1) == labels) & (answer != labels)
        before, after, labels, answer = (part[success] for part in (before, after, labels, answer))
        found: Found = {"n": len(clean), "successful": len(labels), "features": before.shape[1], "kept": {}}
        for kept in KEPT:
            found["kept"][str(kept)] = _parts(before, after, weights[labels], weights[answer], kept)
    return found


def _features(network: Any, images: Tensor) -> Tensor:
    return torch.cat([network.features(part) for part in torch.split(images, 100)])


def _parts(before: Tensor, after: Tensor, own: Tensor, theirs: Tensor, kept: float) -> dict[str, Any]:
    """The change of both logits in parts, for each image."""
    gave, gives = own * before, own * after
    useful = gave > 0
    robust = useful & (gives >= kept * gave)
    groups = {"robust": robust, "non-robust": useful & ~robust, "irrelevant": ~useful}
    made: dict[str, Any] = {}
    for logit, weights in (("true", own), ("adversarial", theirs)):
        change = weights * (after - before)
        made[logit] = {name: rounded((change * group).sum(1)) for name, group in groups.items()}
        made[logit]["all"] = rounded(change.sum(1))
    made["share of features"] = {name: round(float(group.float().mean()), 4) for name, group in groups.items()}
    return made


EXPERIMENT = Experiment(
    name="features",
    title="Robust, non-robust and irrelevant features",
    question="Is a logit's change under attack carried by the non-robust features alone, as the paper's equation says?",
    cells=cells,
    full={"n": 500},
    quick={"n": 60},
    differs=(
        "The paper defines the parts but no threshold; here a feature is a coordinate of the penultimate "
        "layer, useful if it raises the true logit, robust if it keeps a stated share of that."
    ),
    why="500 test images come with the package.",
)
