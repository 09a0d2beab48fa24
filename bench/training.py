"""What the training loop costs: its throughput over that of the bare forward, backward and step loop.

Usage: python bench/training.py [--rounds 7] [--steps 20] [--out bench/results/training.json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from alu import data
from alu.provenance import provenance
from alu.storage import write_json
from alu.training.batches import Batch, batches
from alu.training.loop import Run, train
from alu.training.objectives import Objective
from alu.training.recipes import recipe, seeded
from alu.training.settings import Settings

RECIPES = ("cifar10-standard", "cifar10-vae")


@dataclass
class Subject:
    """One recipe's network, objective and settings on `images`."""

    model: nn.Module
    objective: Objective
    settings: Settings
    images: data.Dataset

    def loop_seconds(self) -> float:
        """Seconds a step of the real loop: batches, augmentation, averaging and bookkeeping included."""
        stamps: list[float] = []
        run = Run(self.model, self.objective, self.images, self.images.take(range(8)), self.settings)
        train(run, lambda done, total, _: stamps.append(time.perf_counter()))
        return (stamps[-1] - stamps[0]) / (len(stamps) - 1)

    def bare_seconds(self, ready: list[Batch], optimizer: torch.optim.Optimizer) -> float:
        """Seconds a step of forward, backward and update alone, on batches that lie ready."""
        self.model.train()
        start = time.perf_counter()
        for batch in ready:
            optimizer.zero_grad(set_to_none=True)
            self.objective.loss(self.model, batch)[0].backward()
            optimizer.step()
        return (time.perf_counter() - start) / len(ready)


def subject(name: str, steps: int) -> Subject:
    made = recipe(name)
    settings = replace(made.settings, epochs=1)
    whole = data.sample("calibration")
    images = whole.take([number % len(whole) for number in range(steps * settings.batch_size)])
    model = seeded(lambda: made.build(images), 0).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return Subject(model, made.objective(), settings, images)


def measure(name: str, rounds: int, steps: int) -> dict[str, object]:
    """Interleaved rounds, the order changing, so that a slow minute of the machine falls on both alike."""
    it = subject(name, steps)
    ready = list(batches(it.images, it.settings, 0))
    kind = torch.optim.SGD if it.settings.optimizer == "sgd" else torch.optim.Adam
    optimizer = kind(it.model.parameters(), lr=1e-4)
    it.settings = replace(it.settings, lr=1e-4)
    it.bare_seconds(ready[:3], optimizer)
    bare, loop = [], []
    for number in range(rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            if which:
                loop.append(it.loop_seconds())
            else:
                bare.append(it.bare_seconds(ready, optimizer))
    share = statistics.median(b / w for b, w in zip(bare, loop, strict=True))
    size = it.settings.batch_size
    return {
        "recipe": name,
        "batch_size": size,
        "bare_images_per_second": round(size / statistics.median(bare), 1),
        "loop_images_per_second": round(size / statistics.median(loop), 1),
        "loop_to_bare": round(share, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "training.json")
    options = parser.parse_args()
    result = {
        "what": "throughput of the training loop over that of the bare forward, backward and step loop; medians of "
        "interleaved rounds; wanted: at least 0.9",
        "rounds": options.rounds,
        "steps_per_round": options.steps,
        "recipes": [measure(name, options.rounds, options.steps) for name in RECIPES],
        "measured with": provenance(0),
    }
    write_json(options.out, result)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
