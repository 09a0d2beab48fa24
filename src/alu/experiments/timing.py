"""timing: what the latent steps cost, as ratios measured in one run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

import torch

from alu.experiments.base import Cell, Experiment, Found
from alu.experiments.material import Material

STEPS = (0, 50, 200)


def cells(material: Material) -> list[Cell]:
    """One cell: interleaved timings cannot be taken apart."""
    return [Cell("seconds", partial(_seconds, material), ("cifar10-standard", "cifar10-vae"))]


def _seconds(material: Material) -> Found:
    """Seconds of each repetition for the bare classifier and for ALU at each N."""
    images = material.images("cifar10", "test", material.sizes["n"]).images
    classifier = material.classifier("cifar10-standard")
    work: dict[str, Callable[[], object]] = {"bare": lambda: classifier(images)}
    for steps in STEPS:
        purifier = material.purifier(f"cifar10-vae@{steps}")
        work[str(steps)] = partial(_answered, classifier, purifier, images)
    found: dict[str, list[float]] = {name: [] for name in work}
    repeats = material.sizes["repeats"]
    for repeat in range(repeats):
        material.watch("Timing", repeat, repeats)
        for name, job in work.items():
            started = time.perf_counter()
            with torch.no_grad():
                job()
            found[name].append(round(time.perf_counter() - started, 5))
    middle = {name: statistics.median(values) for name, values in found.items()}
    return {"n": len(images), "repeats": repeats, "seconds": found, "median": middle}


def _answered(
    classifier: Callable[[torch.Tensor], torch.Tensor], purifier: torch.nn.Module, images: torch.Tensor
) -> None:
    """What ALU computes for a batch: the logits before and after purification."""
    classifier(images)
    classifier(purifier(images))


EXPERIMENT = Experiment(
    name="timing",
    title="The time that the latent steps take",
    question="How much longer does an answer take with N latent steps?",
    cells=cells,
    full={"n": 100, "repeats": 7},
    quick={"n": 10, "repeats": 3},
    differs=(
        "The paper times a ResNet-50 on a GPU: there a latent step is cheap beside the classifier, on a CPU "
        "with a narrow classifier it is not."
    ),
    why="Ratios settle within a few repetitions; the paper's 10,000 images would only take longer.",
)
