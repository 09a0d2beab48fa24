"""Fashion-MNIST from its four idx files, as Debian's package dataset-fashion-mnist has them."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from alu.data.cache import Half, split_of
from alu.data.dataset import Dataset
from alu.errors import DataError
from alu.storage import explained

CLASSES = ("T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
DEBIAN = Path("/usr/share/datasets/fashion-mnist")
PREFIX = {"train": "train", "test": "t10k"}


def fashion_mnist(split: str, n: int | None = None, seed: int = 0, root: str | Path | None = None) -> Dataset:
    """Fashion-MNIST images [N, 1, 28, 28]; calibration and validation get 5 % of the training images each."""
    folder = find_fashion_mnist(root)
    return split_of("fashion-mnist", split, lambda which: _half(folder, which), CLASSES).draw(n, seed)


def find_fashion_mnist(root: str | Path | None = None) -> Path:
    """The folder with the idx files: `root`, or the place of Debian's package."""
    folder = DEBIAN if root is None else Path(root)
    if not any((folder / f"t10k-labels-idx1-ubyte{ending}").is_file() for ending in ("", ".gz")):
        raise DataError(
            f"Fashion-MNIST is not in {folder}: expected t10k-labels-idx1-ubyte.gz and its three siblings. "
            "Install Debian's package dataset-fashion-mnist, or give root= the folder with these files."
        )
    return folder


def _half(folder: Path, which: str) -> Half:
    pixels = _read_idx(folder, f"{PREFIX[which]}-images-idx3-ubyte", 3)
    labels = _read_idx(folder, f"{PREFIX[which]}-labels-idx1-ubyte", 1).to(torch.int64)
    return pixels.unsqueeze(1), labels


def _read_idx(folder: Path, name: str, axes: int) -> Tensor:
    path = folder / name if (folder / name).is_file() else folder / f"{name}.gz"
    with explained(path, "read"):
        content = path.read_bytes()
    try:
        content = gzip.decompress(content) if path.suffix == ".gz" else content
        magic, *shape = struct.unpack_from(f">{axes + 1}I", content)
    except (OSError, EOFError, zlib.error, struct.error) as error:
        raise DataError(f"{path} is damaged or truncated ({error}). Get a fresh copy.") from error
    start = 4 * (axes + 1)
    if magic != 0x0800 + axes or len(content) - start != math.prod(shape):
        raise DataError(f"{path} is not an idx file of {axes} axes, or is truncated. Get a fresh copy.")
    return torch.from_numpy(np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy())
