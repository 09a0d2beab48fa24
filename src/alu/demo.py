"""The demo: where the defence works and where it does not, on real images, in two minutes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from alu import data
from alu.attacks import PGD
from alu.attacks.adaptive.view import smoothly_purified
from alu.decision import Decision
from alu.defense import Defense, batched_logits
from alu.evaluation.cascade import pictured
from alu.loading import load_bundled_defense
from alu.progress import Watch, silent
from alu.provenance import provenance

MAIN = "VAE + ALU (input)"
"""The defence whose scores and pictures are shown."""
DEFENSES = {MAIN: "demo", "VAE + ALU (reconstruction)": "demo-reconstruction", "PCA-500 + ALU (input)": "demo-pca"}
"""The names of bundled defences, by the title of their row."""


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
    test = data.sample("test").draw(n, seed)
    images, labels = test.images.to(device), test.labels.to(device)
    calibrating = partial(watch, "Calibrating on clean images")
    defenses = {title: load_bundled_defense(name, calibrating).to(device) for title, name in DEFENSES.items()}
    main = defenses[MAIN]
    assert main.detector is not None
    attacked = attacked_images(main, images, labels, seed, watch)
    decisions: dict[str, dict[str, Decision]] = {title: {} for title in defenses}
    for column, given in attacked.items():
        for done, (title, defense) in enumerate(defenses.items(), start=1):
            decisions[title][column] = defense.decide(given)
            watch(f"Defending: {column}", done * n, len(defenses) * n)
    bare = {column: batched_logits(main.classifier, given) for column, given in attacked.items()}
    purified = {column: decision.post_logits for column, decision in decisions[MAIN].items()}
    return DemoResult(
        rows=[
            _unflagged_row("classifier alone", bare, labels),
            _unflagged_row("VAE, purified only", purified, labels),
            *(_row(title, columns, labels) for title, columns in decisions.items()),
        ],
        examples=_examples(attacked, decisions[MAIN], labels),
        scores={column: [round(float(s), 4) for s in decisions[MAIN][column].score] for column in attacked},
        threshold=float(main.detector.threshold_),
        classes=list(test.classes),
        setting={
            **provenance(seed), "n": n, "calibration images": len(main.detector.scores_),
            "false-alarm rate": main.detector.false_alarm, "eps": "8/255",
            "classifier": "cifar10-standard", "VAE": "cifar10-vae, 20 steps of Adam, lr 0.05 falling to 0",
            "PCA": "500 directions of 10,000 training images",
        },
    )  # fmt: skip


def attacked_images(defense: Defense, images: Tensor, labels: Tensor, seed: int, watch: Watch) -> dict[str, Tensor]:
    """The images of every column."""
    attack = PGD(eps=8 / 255, steps=20, seed=seed)
    wrong = (labels + 1) % 10
    return {
        "clean": images,
        "pgd": attack(defense.classifier, images, labels, partial(watch, "Attacking: pgd")),
        "decoy": attack(defense.classifier, images, wrong, partial(watch, "Attacking: decoy")),
        "surrogate": attack(smoothly_purified(defense), images, labels, partial(watch, "Attacking: through the VAE")),
    }


def _unflagged_row(name: str, logits: dict[str, Tensor], labels: Tensor) -> dict[str, Any]:
    """The row of what answers without a detector."""
    columns = {column: {"correct": _bits(some.argmax(1) == labels), "flagged": None} for column, some in logits.items()}
    return {"name": name, "columns": columns}


def _row(name: str, decisions: dict[str, Decision], labels: Tensor) -> dict[str, Any]:
    columns = {
        column: {"correct": _bits(decision.label == labels), "flagged": _bits(decision.flagged)}
        for column, decision in decisions.items()
    }
    return {"name": name, "columns": columns}


def _bits(values: Tensor) -> list[int]:
    return [int(value) for value in values]


def _examples(attacked: dict[str, Tensor], decisions: dict[str, Decision], labels: Tensor) -> list[dict[str, Any]]:
    """Three images, clean and under the first two attacks: pictures, and logits before and after."""
    return [
        {
            "column": column,
            "true": int(labels[index]),
            **pictured(decisions[column][index], attacked["clean"][index], attacked[column][index], 8 / 255),
        }
        for index in range(3)
        for column in ("clean", "pgd", "decoy")
    ]
