"""What the defence costs: time per image as a ratio to the bare classifier's forward, measured in one run.

Usage: python bench/latency.py [--repeats 7] [--out bench/results/latency.json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import torch

from alu import Defense, data, models
from alu.detectors import LogitShift
from alu.provenance import provenance
from alu.purifiers import PCA, LatentVAE
from alu.storage import write_json

STEPS = (0, 10, 20, 50, 200)


def seconds(call: object, images: torch.Tensor) -> float:
    start = time.perf_counter()
    call(images)  # type: ignore[operator]
    return time.perf_counter() - start


def measure(batch: int, repeats: int) -> dict[str, object]:
    """Medians over interleaved repeats, so that a slow minute of the machine falls on every row alike."""
    classifier = models.load("cifar10-standard")
    clean = data.sample("calibration").images[:200]
    images = data.sample("test").images[:batch]
    rows: dict[str, object] = {"classifier": classifier}
    rows["PCA-500 + ALU"] = Defense(classifier, PCA.bundled("cifar10-pca"), LogitShift()).calibrate(clean)
    fast = Defense(classifier, LatentVAE("cifar10-vae", steps=0), LogitShift()).calibrate(clean)
    for steps in STEPS:
        defense = Defense(classifier, LatentVAE("cifar10-vae", steps=steps), LogitShift())
        defense.load_state_dict(fast.state_dict())  # one threshold for all: the time does not depend on it
        rows[f"VAE + ALU, N={steps}"] = defense
    times: dict[str, list[float]] = {name: [] for name in rows}
    with torch.inference_mode():
        for name, call in rows.items():
            if not name.endswith("200"):
                seconds(call, images)
        for _ in range(repeats):
            for name, call in rows.items():
                times[name].append(seconds(call, images))
    bare = statistics.median(times["classifier"])
    # Ratios within one round, then their median: the machine's speed drifts, the ratio much less.
    ratios = {
        name: statistics.median(t / b for t, b in zip(found, times["classifier"], strict=True))
        for name, found in times.items()
    }
    return {
        "batch": batch,
        "classifier_seconds_per_image": bare / batch,
        "ratio_to_classifier": {name: round(ratio, 2) for name, ratio in ratios.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "latency.json")
    options = parser.parse_args()
    result = {
        "what": "time per image as a ratio to one forward of the bare classifier; medians of interleaved rounds",
        "classifier": "cifar10-standard",
        "vae": "cifar10-vae",
        "rounds": options.repeats,
        "batches": [measure(batch, options.repeats) for batch in (1, 64)],
        "measured with": provenance(0),
    }
    write_json(options.out, result)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
