"""What it costs to refuse: the neighbourhood check as a ratio to the bare classifier's forward, measured in one run,
and how many noisy copies a certificate needs.

Usage: python bench/refusal.py [--images 300] [--rounds 5] [--certified 100] [--out bench/results/refusal.json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import alu
from alu import data, models
from alu.provenance import provenance
from alu.storage import write_json

CHECK, SMOOTH = "cifar10-at+check", "cifar10-smooth"
BATCH, RADIUS, SIGMA, SAMPLES = 64, 0.25, 0.25, 10_000
FEW = 500
"""Half of the pictures should need no more samples."""
BARS = {"answered": 35, "refused": 8}
"""Bare forwards that a picture should cost at most: every answered one, and most of those that are refused."""


def passes(defense: alu.Defense, images: Tensor) -> list[tuple[int, int]]:
    """Forward and backward passes of each picture alone; they do not depend on the batch."""
    counts = [0, 0]

    def backward(gradient: Tensor) -> None:
        counts[1] += len(gradient)

    def forward(module: nn.Module, inputs: Any, output: Tensor) -> None:
        counts[0] += len(output)
        if output.requires_grad:
            output.register_hook(backward)  # type: ignore[no-untyped-call]

    handle, found = defense.classifier.register_forward_hook(forward), []  # type: ignore[attr-defined]
    for image in images:
        counts[:] = 0, 0
        defense.decide(image[None])
        found.append((counts[0], counts[1]))
    handle.remove()
    return found


def in_turn(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Time of each as a ratio to the first; within one round, then the median: the machine's speed drifts, the ratio
    much less."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    bare = next(iter(times.values()))
    return {name: statistics.median(t / b for t, b in zip(found, bare, strict=True)) for name, found in times.items()}


def gradient(model: nn.Module, images: Tensor) -> None:
    """A forward and a backward pass to the image."""
    with torch.enable_grad():
        at = images.clone().requires_grad_(True)
        torch.autograd.grad(model(at).sum(), at)


def check(images: Tensor, rounds: int) -> dict[str, Any]:
    """The check on a batch of answered and on a batch of refused pictures."""
    defense: Any = alu.load(CHECK)
    model = defense.classifier
    accepted = defense.decide(images).accepted
    batches = {"answered": images[accepted][:BATCH], "refused": images[~accepted][:BATCH]}
    # Always as many pictures as the bare forward has, or a small batch would look cheap.
    batches = {name: part[torch.arange(BATCH) % len(part)] for name, part in batches.items()}
    with torch.no_grad():
        ratios = in_turn(
            {
                "bare forward": lambda: model(batches["answered"]),
                "forward and backward": lambda: gradient(model, batches["answered"]),
                **{name: partial(defense.decide, part) for name, part in batches.items()},
            },
            rounds,
        )
    backward = ratios["forward and backward"] - 1
    found: dict[str, Any] = {
        "images": len(images),
        "images_answered": int(accepted.sum()),
        "batch": BATCH,
        "backward_to_forward": backward,
    }
    for name, part in batches.items():
        counted = passes(defense, part)
        equivalents = [forwards + backward * backwards for forwards, backwards in counted]
        found[name] = {
            "ratio_to_forward": ratios[name],
            "forwards": statistics.mean(pair[0] for pair in counted),
            "backwards": statistics.mean(pair[1] for pair in counted),
            "median_forwards_by_passes": statistics.median(equivalents),
            "bar": BARS[name],
            "share_within_bar_by_passes": sum(value <= BARS[name] for value in equivalents) / len(equivalents),
        }
    return found


def certificate(network: nn.Module, images: Tensor) -> dict[str, Any]:
    """Noisy copies that settle whether the radius is at least `RADIUS`."""
    found = models.Smoothed(network, sigma=SIGMA).certify(images, n=SAMPLES, radius=RADIUS)
    counts = found.samples.tolist()
    return {
        "images": len(images),
        "sigma": SIGMA,
        "radius": RADIUS,
        "most_samples": SAMPLES,
        "answered": int((found.labels >= 0).sum()),
        "median_samples": statistics.median(counts),
        "mean_samples": statistics.mean(counts),
        f"share_settled_with_{FEW}": sum(count <= FEW for count in counts) / len(counts),
    }


def rounded(value: Any) -> Any:
    """The same with numbers of three digits behind the point."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    return round(value, 3) if isinstance(value, float) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--certified", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "refusal.json")
    options = parser.parse_args()
    test = data.sample("test")
    proofs: Any = f"{SMOOTH} is not bundled: alu train {SMOOTH}, then python tools/publish.py {SMOOTH} runs/{SMOOTH}."
    if SMOOTH in models.names():
        proofs = certificate(models.load(SMOOTH), test.draw(options.certified).images)
    result = {
        "what": "time of the check as a ratio to one forward of the bare classifier, batch 64; samples of certificates",
        "defense": CHECK,
        "rounds": options.rounds,
        "check": rounded(check(test.draw(options.images).images, options.rounds)),
        "certificate": rounded(proofs),
        "measured with": provenance(0),
    }
    write_json(options.out, result)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
