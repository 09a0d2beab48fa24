"""The demo: where the defence works and where it does not, on real images, in two minutes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from alu import data, models
from alu.attacks import PGD
from alu.attacks.adaptive.view import smoothly_purified
from alu.decision import Decision, Evidence
from alu.defense import Defense, batched_logits
from alu.detectors import LogitShift
from alu.evaluation.cascade import png
from alu.progress import Count, Watch, silent
from alu.provenance import provenance
from alu.purifiers import PCA, LatentVAE

"""Stage, how much is done, and of how much."""
MAIN = "VAE + ALU (input)"
"""The defence whose scores and pictures are shown."""


@dataclass
class DemoResult:
    """Outcomes per row and column, a few images, and where they come from; plain values only."""

    rows: list[dict[str, Any]]
    """The name, and for each column whether each image is answered correctly and whether it is flagged."""
    examples: list[dict[str, Any]]
    scores: dict[str, list[float]]
    threshold: float
    classes: list[str]
    setting: dict[str, Any]


def run_demo(n: int = 200, seed: int = 0, device: str = "cpu", watch: Watch = silent) -> DemoResult:
    """Attack the bundled classifier on `n` bundled test images and let every defence answer."""
    classifier = models.load("cifar10-standard").to(device)
    vae, pca = LatentVAE("cifar10-vae", steps=20).to(device), PCA.bundled("cifar10-pca").to(device)
    test = data.sample("test").draw(n, seed)
    clean = data.sample("calibration").images.to(device)
    images, labels = test.images.to(device), test.labels.to(device)
    defenses = {
        "VAE, purified only": Defense(classifier, vae, LogitShift(), "purified"),
        MAIN: Defense(classifier, vae, LogitShift(), "alu", "input"),
        "VAE + ALU (reconstruction)": Defense(classifier, vae, LogitShift(), "alu", "reconstruction"),
        "PCA-500 + ALU (input)": Defense(classifier, pca, LogitShift(), "alu", "input"),
    }
    for name, evidence in gather(defenses, clean, partial(watch, "Calibrating on clean images")).items():
        defenses[name].calibrate_on(evidence)
    attacked = attacked_images(classifier, vae, images, labels, seed, watch)
    decisions: dict[str, dict[str, Decision]] = {name: {} for name in defenses}
    for column, given in attacked.items():
        for name, evidence in gather(defenses, given, partial(watch, f"Defending: {column}")).items():
            decisions[name][column] = defenses[name].judge(evidence)
    detector = defenses[MAIN].detector
    assert detector is not None
    return DemoResult(
        rows=[
            _bare_row(classifier, attacked, labels),
            *(_row(name, columns, labels) for name, columns in decisions.items()),
        ],
        examples=_examples(attacked, decisions[MAIN], labels),
        scores={column: [round(float(s), 4) for s in decisions[MAIN][column].score] for column in attacked},
        threshold=float(detector.threshold_),
        classes=list(test.classes),
        setting={
            **provenance(seed), "n": n, "calibration images": len(clean), "false-alarm rate": 0.005, "eps": "8/255",
            "classifier": "cifar10-standard", "VAE": "cifar10-vae, 20 steps of Adam, lr 0.05 falling to 0",
            "PCA": "500 directions of 10,000 training images",
        },
    )  # fmt: skip


def gather(defenses: Mapping[str, Defense], images: Tensor, watch: Count, batch_size: int = 100) -> dict[str, Evidence]:
    """What `Defense.evidence` gives for each defence; those that differ in their rule alone share it."""
    kinds = {name: (defense.classifier, defense.purifier, defense.reference) for name, defense in defenses.items()}
    distinct = {kinds[name]: defense for name, defense in defenses.items()}
    gathered: dict[object, Evidence] = {}
    for number, (kind, defense) in enumerate(distinct.items()):
        parts = []
        for start in range(0, len(images), batch_size):
            with torch.no_grad():
                parts.append(defense.evidence(images[start : start + batch_size]))
            watch(number * len(images) + min(start + batch_size, len(images)), len(distinct) * len(images))
        gathered[kind] = Evidence.join(parts)
    return {name: gathered[kind] for name, kind in kinds.items()}


def attacked_images(
    classifier: nn.Module, vae: LatentVAE, images: Tensor, labels: Tensor, seed: int, watch: Watch
) -> dict[str, Tensor]:
    """The images of every column."""
    attack = PGD(eps=8 / 255, steps=20, seed=seed)
    surrogate = smoothly_purified(Defense(classifier, vae, rule="purified"))
    wrong = (labels + 1) % 10
    return {
        "clean": images,
        "pgd": attack(classifier, images, labels, partial(watch, "Attacking: pgd")),
        "decoy": attack(classifier, images, wrong, partial(watch, "Attacking: decoy")),
        "surrogate": attack(surrogate, images, labels, partial(watch, "Attacking: through the VAE")),
    }


def _bare_row(classifier: nn.Module, attacked: dict[str, Tensor], labels: Tensor) -> dict[str, Any]:
    columns = {}
    for column, images in attacked.items():
        answer = batched_logits(classifier, images).argmax(1)
        columns[column] = {"correct": _bits(answer == labels), "flagged": None}
    return {"name": "classifier alone", "columns": columns}


def _row(name: str, decisions: dict[str, Decision], labels: Tensor) -> dict[str, Any]:
    columns = {}
    for column, decision in decisions.items():
        flags = None if name.endswith("only") else _bits(decision.flagged)
        columns[column] = {"correct": _bits(decision.label == labels), "flagged": flags}
    return {"name": name, "columns": columns}


def _bits(values: Tensor) -> list[int]:
    return [int(value) for value in values]


def _examples(attacked: dict[str, Tensor], decisions: dict[str, Decision], labels: Tensor) -> list[dict[str, Any]]:
    """Three images, clean and under the first two attacks: pictures, and logits before and after."""
    examples = []
    for index in range(3):
        for column in ("clean", "pgd", "decoy"):
            image, decision = attacked[column][index], decisions[column]
            moved = (image - attacked["clean"][index]) * 255 / 8 / 2 + 0.5
            examples.append({
                "column": column, "true": int(labels[index]), "answer": int(decision.label[index]),
                "flagged": bool(decision.flagged[index]), "score": round(float(decision.score[index]), 2),
                "image": png(image), "perturbation": png(moved), "purified": png(decision.purified[index]),
                "before": [round(float(v), 3) for v in decision.pre_logits[index]],
                "after": [round(float(v), 3) for v in decision.post_logits[index]],
            })  # fmt: skip
    return examples
