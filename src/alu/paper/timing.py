"""timing: what the latent steps cost, as ratios measured in one run."""

from __future__ import annotations

import statistics
import time

from alu.paper import store
from alu.paper.base import Cell, Experiment, System, Workbench
from alu.paper.store import PUBLISHED, Measured, Results
from alu.paper.views import Panel, Table

SYSTEM = System("cifar10-standard", "cifar10-vae")
PAPER: dict[str, float] = PUBLISHED["timing"]
"""Seconds, by number of steps."""


class Key(store.Key, experiment="timing"):
    """The only cell: interleaved timings cannot be taken apart."""

    name: str = "seconds"


def measure(bench: Workbench, key: Key) -> Measured:
    """Seconds of each repetition, for the bare classifier and for the logits before and after N steps."""
    import torch

    images, classifier = bench.test_images().images, bench.classifier(SYSTEM.classifier)
    purifiers = {steps: bench.purifier(System(SYSTEM.classifier, f"{SYSTEM.purifier}@{steps}")) for steps in PAPER}
    seconds: dict[str, list[float]] = {name: [] for name in ("bare", *purifiers)}
    repeats = bench.sizes["repeats"]
    for repeat in range(repeats):
        bench.watch("Timing", repeat, repeats)
        for name, each in seconds.items():
            started = time.perf_counter()
            with torch.no_grad():
                classifier(images)
                if name in purifiers:
                    classifier(purifiers[name](images))
            each.append(round(time.perf_counter() - started, 5))
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    return {"n": len(images), "repeats": repeats, "seconds": seconds, "median": middle}


def view(results: Results) -> list[Panel]:
    """Ratios to N = 0 and to the bare classifier."""
    measured = results.get(Key())
    if not measured:
        return [Table.empty("Time")]
    middle, each, n = measured["median"], measured["seconds"], measured["n"]
    rows = [["bare classifier", f"{1000 * middle['bare'] / n:.2f}", "1.0", "–", "–"]]
    for steps, seconds in PAPER.items():
        ratios = [_ratio(each[steps], each[other]) for other in ("bare", "0")]
        paper = f"{seconds / PAPER['0']:.1f}"
        rows.append([f"N = {steps}", f"{1000 * middle[steps] / n:.2f}", *ratios, paper])
    header = ["", "milliseconds per image", "times the bare classifier", "times N = 0", "times N = 0, the paper"]
    title = f"Median of {measured['repeats']} interleaved runs, batch of {n}; ratios with their quartiles"
    return [Table(title, header, rows)]


def _ratio(one: list[float], other: list[float]) -> str:
    """The ratio of two columns of seconds: each repetition is compared with itself, so that a pause hits one ratio."""
    ratios = [a / b for a, b in zip(one, other, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return f"{middle:.1f} [{low:.1f}, {high:.1f}]"


EXPERIMENT = Experiment(
    Key,
    lambda sizes: [Cell(Key(), SYSTEM.needs)],
    measure,
    view,
    title="The time that the latent steps take",
    question="How much longer does an answer take with N latent steps?",
    sizes={"n": (100, 10), "repeats": (7, 3)},
    timed=True,
    differs=(
        "The paper times a ResNet-50 on a GPU: there a latent step is cheap compared with the classifier; on a CPU "
        "with a narrow classifier it is not."
    ),
    why="Ratios settle within a few repetitions; the paper's 10,000 images would only take longer.",
)
