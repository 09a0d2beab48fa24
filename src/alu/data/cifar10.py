"""CIFAR-10 in the splits of the protocol."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from alu.data.dataset import Dataset

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
INDICES = Path(__file__).parent / "indices" / "cifar10.json"


def cifar10(split: str, n: int | None = None, seed: int = 0, root: Path | None = None) -> Dataset:
    """CIFAR-10, 45,000 train / 2,500 calibration / 2,500 validation / 10,000 test images."""
    root = Path(root or "/tmp/npm/package")

    def strip(name: str) -> torch.Tensor:
        pixels = np.asarray(Image.open(root / name)).reshape(-1, 32, 32, 3)
        return torch.from_numpy(pixels.transpose(0, 3, 1, 2).copy())

    if split == "test":
        whole = Dataset(
            strip("test_batch.png"), torch.tensor(json.loads((root / "test_lables.json").read_text())), CLASSES,
            "cifar10", split,
        )
        return whole.draw(n, seed)
    pixels = torch.cat([strip(f"data_batch_{k}.png") for k in range(1, 6)])
    labels = torch.tensor(json.loads((root / "train_lables.json").read_text()))
    whole = Dataset(pixels, labels, CLASSES, "cifar10", split)
    held = {k: v for k, v in json.loads(INDICES.read_text()).items() if k in ("calibration", "validation")}
    if split == "train":
        out = set(held["calibration"]) | set(held["validation"])
        chosen = [i for i in range(50000) if i not in out]
    else:
        chosen = held[split]
    return whole.take(chosen, split).draw(n, seed)
