"""What PGD-20 costs beside its forward and backward passes, and beside foolbox, measured in one run.

Usage: python bench/attacks.py [--images 500] [--rounds 2] [--out bench/results/attacks.json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from alu import data, models
from alu.attacks import PGD
from alu.attacks.borrowed import borrow
from alu.integrations import to_foolbox
from alu.provenance import provenance
from alu.storage import write_json

STEPS, EPS, BATCH = 20, 8 / 255, 100


def by_hand(model: torch.nn.Module, images: Tensor, labels: Tensor) -> None:
    """The passes alone: no steps, no projection, no random start."""
    at = images.clone().requires_grad_(True)
    for _ in range(STEPS):
        loss = torch.nn.functional.cross_entropy(model(at), labels, reduction="sum")
        torch.autograd.grad(loss, at)


def rows(model: torch.nn.Module) -> dict[str, Callable[[Tensor, Tensor], Any]]:
    seen = to_foolbox(model)
    theirs = borrow("foolbox", "bench", "attacks").attacks.LinfPGD(abs_stepsize=EPS / 4, steps=STEPS)
    ours = PGD(eps=EPS, steps=STEPS, batch_size=BATCH)
    return {
        "forward and backward passes": lambda images, labels: by_hand(model, images, labels),
        "alu": lambda images, labels: ours(model, images, labels),
        "foolbox": lambda images, labels: theirs.run(seen, images, labels, epsilon=EPS),
    }


def measure(count: int, rounds: int) -> dict[str, Any]:
    """Every batch goes through all rows in turn, so that a slow minute of the machine falls on all alike."""
    model = models.load("cifar10-standard").eval()
    test = data.sample("test").draw(count)
    batches = list(zip(test.images.split(BATCH), test.labels.split(BATCH), strict=True))
    calls = rows(model)
    times: dict[str, list[float]] = {name: [] for name in calls}
    by_hand(model, *batches[0])
    for _ in range(rounds):
        for images, labels in batches:
            for name, call in calls.items():
                start = time.perf_counter()
                call(images, labels)
                times[name].append(time.perf_counter() - start)
    passes, ours, theirs = times.values()
    return {
        "images": count,
        "seconds": {name: round(sum(found) / rounds, 2) for name, found in times.items()},
        # Ratios within one batch, then their median: the machine's speed drifts, the ratio much less.
        "alu_to_passes": round(statistics.median(a / b for a, b in zip(ours, passes, strict=True)), 3),
        "alu_to_foolbox": round(statistics.median(a / b for a, b in zip(ours, theirs, strict=True)), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "attacks.json")
    options = parser.parse_args()
    result = {
        "what": "PGD-20 against its own 20 forward and backward passes and against foolbox; interleaved, medians",
        "classifier": "cifar10-standard",
        "rounds": options.rounds,
        **measure(options.images, options.rounds),
        "measured with": provenance(0),
    }
    write_json(options.out, result)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
