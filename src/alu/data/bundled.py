"""The sample of CIFAR-10 that travels with the package: enough to calibrate and test without a download."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from alu.data.cifar10 import CLASSES
from alu.data.cifar_layout import strip_images
from alu.data.dataset import Dataset
from alu.data.pictures import read_picture
from alu.data.splits import check_split
from alu.data.stored import content_digest
from alu.errors import DataError
from alu.storage import read_json

FOLDER = Path(__file__).parent / "sample"
SAMPLE_SPLITS = ("calibration", "test")


def sample(split: str, n: int | None = None, seed: int = 0) -> Dataset:
    """500 test or 1,500 calibration images [N, 3, 32, 32] of CIFAR-10, the same number of each class.

    `indices` are the positions in the official test set and in the official training set.
    """
    check_split(split, SAMPLE_SPLITS)
    facts: dict[str, Any] = read_json(FOLDER / "sample.json")["splits"][split]
    pixels = strip_images(read_picture(FOLDER / facts["file"], channels=3))
    labels = torch.tensor(facts["labels"])
    if content_digest((pixels, labels)) != facts["sha256"]:
        raise DataError(f"{FOLDER / facts['file']} was changed since alu was installed. Install alu again.")
    return Dataset(pixels, labels, CLASSES, "cifar10-sample", split, torch.tensor(facts["indices"])).draw(n, seed)
