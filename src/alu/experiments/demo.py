"""The demo: where the defence works and where it does not, on real images, in two minutes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
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
from alu.evaluation.examples import png
from alu.provenance import provenance
from alu.purifiers import PCA, LatentVAE

Watcher = Callable[[str, int, int], None]
ATTACKS = {
    "clean": "the images as they are",
    "pgd": "PGD-20 on the classifier, 8/255: an attacker who does not know the defence (oblivious)",
    "decoy": "the same PGD-20 called with a wrong label: it makes the defence name that label",
    "surrogate": "PGD-20 through encoder and decoder: what the paper calls white-box",
}


class Readings:
    """Evidence for every row of the table from one purification: what is the same in two rows is computed once."""

    def __init__(self, classifier: nn.Module, vae: LatentVAE, pca: PCA) -> None:
        self.classifier, self.vae, self.pca = classifier, vae, pca

    @torch.no_grad()
    def evidence(self, images: Tensor, watch: Callable[[int, int], None], batch_size: int = 100) -> dict[str, Evidence]:
        """Evidence by reading: "input", "reconstruction" and "pca"."""
        parts: list[dict[str, Evidence]] = []
        for start in range(0, len(images), batch_size):
            some = images[start : start + batch_size]
            done = self.vae.purify(some, reconstruct=True)
            again = done.reconstruction if done.reconstruction is not None else some
            projected = self.pca.purify(some).purified
            before, after = self.classifier(some), self.classifier(done.purified)
            parts.append({
                "input": Evidence(some, done.purified, before, after),
                "reconstruction": Evidence(some, done.purified, self.classifier(again), after),
                "pca": Evidence(some, projected, before, self.classifier(projected)),
            })  # fmt: skip
            watch(min(start + batch_size, len(images)), len(images))
        return {reading: Evidence.join([part[reading] for part in parts]) for reading in parts[0]}


@dataclass
class DemoResult:
    """Outcomes per row and column, a few images, and where they come from; plain values only."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    """name, about, and for each column the per-image correctness and flags."""
    examples: list[dict[str, Any]] = field(default_factory=list)
    scores: dict[str, list[float]] = field(default_factory=dict)
    threshold: float = 0.0
    classes: list[str] = field(default_factory=list)
    setting: dict[str, Any] = field(default_factory=dict)


def run_demo(n: int = 200, seed: int = 0, device: str = "cpu", watch: Watcher = lambda *_: None) -> DemoResult:
    """Attack the bundled classifier on `n` bundled test images and judge every way to answer."""
    classifier = models.load("cifar10-standard").to(device)
    vae = LatentVAE("cifar10-vae", steps=20)
    pca = PCA.bundled("cifar10-pca")
    test = data.sample("test").draw(n, seed)
    clean = data.sample("calibration").images.to(device)
    images, labels = test.images.to(device), test.labels.to(device)
    rows = {
        "VAE, purified only": ("input", Defense(classifier, vae, LogitShift(), "purified")),
        "VAE + ALU (input)": ("input", Defense(classifier, vae, LogitShift(), "alu", "input")),
        "VAE + ALU (reconstruction)": (
            "reconstruction",
            Defense(classifier, vae, LogitShift(), "alu", "reconstruction"),
        ),
        "PCA-500 + ALU (input)": ("pca", Defense(classifier, pca, LogitShift(), "alu", "input")),
    }
    readings = Readings(classifier, vae.to(device), pca.to(device))
    unattacked = readings.evidence(clean, partial(watch, "Calibrating on clean images"))
    for reading, defense in rows.values():
        defense.calibrate_on(unattacked[reading])
    attacked = attacked_images(classifier, vae, images, labels, seed, watch)
    evidence = {
        column: readings.evidence(shown, partial(watch, f"Judging: {column}")) for column, shown in attacked.items()
    }
    result = DemoResult(classes=list(test.classes))
    result.rows.append(_bare_row(classifier, attacked, labels))
    decisions: dict[str, dict[str, Decision]] = {}
    for name, (reading, defense) in rows.items():
        decisions[name] = {column: defense.judge(found[reading]) for column, found in evidence.items()}
        result.rows.append(_row(name, decisions[name], labels))
    main = "VAE + ALU (input)"
    detector = rows[main][1].detector
    result.threshold = float(detector.threshold_) if detector is not None else 0.0
    result.scores = {column: [round(float(s), 4) for s in decisions[main][column].score] for column in attacked}
    result.examples = _examples(attacked, decisions[main], labels)
    result.setting = {
        **provenance(seed), "n": n, "calibration images": len(clean), "false-alarm rate": 0.005, "eps": "8/255",
        "classifier": "cifar10-standard", "VAE": "cifar10-vae, 20 steps of Adam, lr 0.05 falling to 0",
        "PCA": "500 directions of 10,000 training images",
    }  # fmt: skip
    return result


def attacked_images(
    classifier: nn.Module, vae: LatentVAE, images: Tensor, labels: Tensor, seed: int, watch: Watcher
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
    """For three images, every column: pictures and logits before and after."""
    shown = []
    for index in range(3):
        for column in ("clean", "pgd", "decoy"):
            image, decision = attacked[column][index], decisions[column]
            moved = (image - attacked["clean"][index]) * 255 / 8 / 2 + 0.5
            shown.append({
                "column": column, "true": int(labels[index]), "answer": int(decision.label[index]),
                "flagged": bool(decision.flagged[index]), "score": round(float(decision.score[index]), 2),
                "image": png(image), "perturbation": png(moved), "purified": png(decision.purified[index]),
                "before": [round(float(v), 3) for v in decision.pre_logits[index]],
                "after": [round(float(v), 3) for v in decision.post_logits[index]],
            })  # fmt: skip
    return shown
