"""logit-change: how logits move under attack: does the true one fall most, and do the others stay?"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from alu import data
from alu.attacks import PGD, AutoAttack, CWLinf
from alu.experiments.base import Cell, Experiment, Found
from alu.experiments.material import Material
from alu.experiments.unions import EPS
from alu.experiments.verdicts import digits, rounded

CLASSIFIERS = ("cifar10-standard", "cifar10-at")


def cells(material: Material) -> list[Cell]:
    """Each attack on the standard classifier and on the robust one."""
    same: dict[str, Any] = {"eps": EPS, "seed": material.seed}
    attacks = {"pgd-20": PGD(steps=20, **same), "cw-linf": CWLinf(steps=20, **same), "autoattack": AutoAttack(**same)}
    made = []
    for classifier in CLASSIFIERS:
        for name, attack in attacks.items():
            # A robust classifier costs AutoAttack a hundred times as much as one that falls at once.
            long = name == "autoattack" and classifier == "cifar10-at"
            run = partial(_changes, material, classifier, name, attack, material.sizes["robust" if long else "n"])
            made.append(Cell(f"{classifier}/{name}", run, (classifier,)))
    return made


def _changes(material: Material, classifier: str, name: str, attack: Any, count: int) -> Found:
    """Of the images answered rightly clean and wrongly attacked: which case of the paper each is, whether the true
    logit fell most, and how far the true, the answered and the other logits moved."""
    clean = material.images("cifar10", "test", count)
    shown = material.attacked(f"{name} on {classifier}", clean, attack, material.classifier(classifier))
    before = material.logits(classifier, clean.key, clean.images)
    after = material.logits(classifier, shown.key, shown.images)
    success = (before.argmax(1) == clean.labels) & (after.argmax(1) != clean.labels)
    before, after, labels = before[success], after[success], clean.labels[success]
    moved, answer = after - before, after.argmax(1)
    own, theirs = _of(moved, labels), _of(moved, answer)
    others = torch.ones_like(moved, dtype=torch.bool)
    others.scatter_(1, labels[:, None], False).scatter_(1, answer[:, None], False)
    rest = moved.abs().masked_fill(~others, 0).sum(1) / others.sum(1)
    case = torch.where(own >= 0, 3, torch.where(theirs > 0, 1, 2))
    found: Found = {
        "n": len(clean), "attacked": digits(success), "true falls most": digits(moved.argmin(1) == labels),
        "case": "".join(map(str, case.tolist())), "true": rounded(own), "answered": rounded(theirs),
        "others, mean size": rounded(rest),
    }  # fmt: skip
    if len(labels):
        at = int(own.argsort()[len(own) // 2])  # the middle one, so that nobody chose it
        found["example"] = {
            "classes": list(data.sample("test").classes), "true": int(labels[at]), "answer": int(answer[at]),
            "before": rounded(before[at]), "after": rounded(after[at]),
        }  # fmt: skip
    return found


def _of(logits: Tensor, labels: Tensor) -> Tensor:
    return logits.gather(1, labels[:, None]).squeeze(1)


EXPERIMENT = Experiment(
    name="logit-change",
    title="How logits change under attack",
    question="Does the true logit fall most, and do the logits of other classes stay where they were?",
    cells=cells,
    full={"n": 500, "robust": 100},
    quick={"n": 100, "robust": 4},
    differs="The paper counts successful attacks of one kind on one network; here three attacks on two networks.",
    why="500 test images come with the package; AutoAttack on the robust classifier takes most of the time.",
)
