"""What a fit on 224-pixel pictures needs: peak memory and time of each purifier, with few pictures and with many.

Each fit runs in a process of its own, around a classifier that costs next to nothing.
Usage: python bench/large_pictures.py [--counts 400 1600] [--out bench/results/large_pictures.json]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from alu.data import Dataset
from alu.fitting import Plan, fit_and_measure
from alu.provenance import provenance
from alu.storage import write_json

SIZE = 224
PURIFIERS: dict[str, dict[str, int]] = {"blur": {}, "pca": {}, "vae": {"steps": 1, "epochs": 1}}


class Bright(nn.Module):
    """Two classes: dark and bright pictures."""

    def forward(self, images: Tensor) -> Tensor:
        mean = images.mean((1, 2, 3))
        return 40 * torch.stack([0.5 - mean, mean - 0.5], 1)


def pictures(count: int) -> Dataset:
    """Smooth random 8-bit pictures with a little noise, made a few at a time."""
    stream = torch.Generator().manual_seed(0)
    pixels = torch.empty((count, 3, SIZE, SIZE), dtype=torch.uint8)
    labels = torch.arange(count) % 2
    for number in range(count):
        coarse = torch.rand((1, 3, 9, 9), generator=stream) * 0.6 + 0.25 * float(labels[number]) + 0.05
        smooth = nn.functional.interpolate(coarse, size=(SIZE, SIZE), mode="bicubic")[0]
        noisy = smooth + 0.02 * torch.randn(smooth.shape, generator=stream)
        pixels[number] = (255 * noisy).clamp(0, 255).round().to(torch.uint8)
    return Dataset(pixels, labels, ("dark", "bright"), "bench")


def fit(purifier: str, count: int) -> dict[str, float]:
    """Peak memory of this process before and after a fit, in MB, and its seconds."""
    data = pictures(count)
    before = _peak()
    started = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit_and_measure(Bright(), data, plan=Plan(purifier=purifier, false_alarm=0.05, **PURIFIERS[purifier]))
    return {
        "pictures_mb": round(data.pixels.numel() / 1e6),
        "before_mb": before,
        "peak_mb": _peak(),
        "seconds": round(time.monotonic() - started, 1),
    }


def _peak() -> int:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", type=int, nargs="+", default=[400, 1600])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "large_pictures.json")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(fit(options.one[0], int(options.one[1]))))
        return
    rows = {}
    for purifier in PURIFIERS:
        for count in options.counts:
            words = [sys.executable, __file__, "--one", purifier, str(count)]
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            rows[f"{purifier}, {count} pictures"] = json.loads(done.stdout)
            print(f"{purifier}, {count} pictures: {done.stdout}", end="", flush=True)
    result = {
        "what": "peak memory (MB) and time of a fit on 224-pixel pictures; the 8-bit pictures are in memory too",
        "settings": PURIFIERS,
        "rows": rows,
        "measured with": provenance(0),
    }
    write_json(options.out, result)


if __name__ == "__main__":
    main()
