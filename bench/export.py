"""What an exported defence costs and how close it is: onnxruntime beside torch, on the same pictures in one run.

For batches of one and more, time per image in both engines and their ratio (medians of interleaved rounds); on the
bundled test pictures, how far labels, flags, states, logits and p-values are apart, beside what torch differs from
itself by when the batch is another.

Usage: python bench/export.py [--repeats 21] [--threads 1] [--out bench/results/export.json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import alu
from alu import Defense, data, models
from alu.detectors import LogitShift
from alu.engine import engine
from alu.exported import Exported
from alu.provenance import provenance
from alu.purifiers import PCA, LatentVAE, Purifier
from alu.storage import write_json

BATCHES = (1, 8, 64)


def purifiers() -> dict[str, Purifier]:
    latent = {f"VAE, N={steps}": LatentVAE("cifar10-vae", steps=steps) for steps in (0, 5, 20)}
    return {"PCA-500": PCA.bundled("cifar10-pca"), **latent}


def seconds(call: Any, images: Any) -> float:
    """Time of some calls in a row: each engine is asked in turns of its own, because their threads get in each other's
    way where they alternate."""
    start = time.perf_counter()
    for _ in range(3):
        call(images, len(images))
    return (time.perf_counter() - start) / 3


def speed(defense: Defense, made: Exported, batch: int, repeats: int) -> dict[str, float]:
    """Milliseconds per image in both engines, and how often the export is faster."""
    images = data.sample("test").images[:batch]
    both = ((defense.decide, images), (made.decide, images.numpy()))
    for call, given in both:
        seconds(call, given)
    rounds = [[seconds(call, given) for call, given in both] for _ in range(repeats)]
    torch_ms, onnx_ms = (1000 * statistics.median(column) / batch for column in zip(*rounds, strict=True))
    ratio = statistics.median(slow / fast for slow, fast in rounds)
    return {
        "batch": batch,
        "torch_ms": round(torch_ms, 2),
        "onnxruntime_ms": round(onnx_ms, 2),
        "ratio": round(ratio, 2),
    }


def apart(ours: Any, theirs: Any, n: int) -> dict[str, float]:
    """How far two decisions on the same pictures are apart."""
    ours, theirs = ({name: np.asarray(getattr(one, name)) for name in one.__dict__} for one in (ours, theirs))
    found: dict[str, float] = {
        f"other {name}": int((ours[name] != theirs[name]).sum()) for name in ("label", "accepted", "flagged", "state")
    }
    for name in ("pre_logits", "post_logits"):
        gap = np.abs(ours[name] - theirs[name]).max(1)
        found |= {f"{name}, largest": float(gap.max()), f"{name}, above 0.001": int((gap > 1e-3).sum())}
    ranks = np.abs(ours["p_value"] - theirs["p_value"]) * (n + 1)
    return found | {
        "p-value, largest, in ranks": round(float(ranks.max()), 3),
        "p-value, above 1 rank": int((ranks > 1.001).sum()),
    }


def closeness(defense: Defense, made: Exported, count: int, n: int) -> dict[str, Any]:
    """The export beside torch, with the clean scores of torch and with its own; torch itself with batches of one."""
    images, clean = data.sample("test").images[:count], data.sample("calibration").images[:n]
    truth = defense.decide(images)
    found = {
        "pictures": count,
        "calibrated on": n,
        "clean scores of torch": apart(made.decide(images.numpy()), truth, n),
    }
    made.calibrate(clean.numpy())
    found["clean scores of onnxruntime"] = apart(made.decide(images.numpy()), truth, n)
    found["torch, one picture at a time"] = apart(defense.decide(images, 1), truth, n)
    return found


def measure(name: str, purifier: Purifier, repeats: int, threads: int, count: int, n: int) -> dict[str, Any]:
    """Everything about one defence."""
    defense = Defense(models.load("cifar10-standard"), purifier, LogitShift(max(0.005, 2 / n)), "graded")
    defense.calibrate(data.sample("calibration").images[:n])
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        alu.export(defense, Path(folder) / "export")
        took = time.perf_counter() - start
        made = alu.exported.load(Path(folder) / "export", threads)
        size = sum(path.stat().st_size for path in (Path(folder) / "export").iterdir())
    return {
        "defence": name,
        "export_seconds": round(took, 1),
        "megabytes": round(size / 1e6, 1),
        "speed": [speed(defense, made, batch, repeats) for batch in BATCHES],
        "closeness": closeness(defense, made, count, n),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=21)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "export.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    result = {
        "what": "an exported defence in onnxruntime beside the defence in torch; medians of interleaved rounds",
        "classifier": "cifar10-standard",
        "rounds": options.repeats,
        "threads": options.threads,
        "engine": engine(),
        "rows": [
            measure(name, purifier, options.repeats, options.threads, 500, 1500)
            for name, purifier in purifiers().items()
        ],
        "measured with": provenance(0),
    }
    write_json(options.out, result)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
