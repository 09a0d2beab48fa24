"""Data sets in the cache: decoded once, then read from one safetensors file, half by half."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from alu.data.archives import fingerprint
from alu.data.dataset import Dataset
from alu.data.splits import check_split, disjoint
from alu.errors import DataError
from alu.storage import explained, write_tensors

T = TypeVar("T")
Half = tuple[Tensor, Tensor]  # uint8 pixels [N, C, H, W] and labels [N]
HELD_OUT = 0.05  # share of the training images that calibration and validation get each


def cache_folder() -> Path:
    """The folder of decoded data sets: the environment variable ALU_CACHE, or ~/.cache/alu."""
    named = os.environ.get("ALU_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "alu"


@dataclass(frozen=True)
class Stored:
    """A safetensors file with train_pixels, train_labels, test_pixels and test_labels."""

    path: Path

    @property
    def source(self) -> str:
        """Where the images were read from."""
        return self._read(lambda file: str((file.metadata() or {}).get("source", "unknown")))

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of their labels."""
        return self._read(lambda file: tuple(json.loads((file.metadata() or {}).get("classes", "[]"))))

    def half(self, which: str) -> Half:
        """Pixels and int64 labels of "train" or "test"; pixels stay on disk until they are used."""
        return self._read(
            lambda file: (
                file.get_tensor(f"{which}_pixels"),
                file.get_tensor(f"{which}_labels").to(torch.int64),
            )
        )

    def _read(self, use: Callable[[Any], T]) -> T:
        with explained(self.path, "read"):
            try:
                with safe_open(self.path, framework="pt") as file:
                    return use(file)
            except SafetensorError as error:
                raise DataError(
                    f"The cached copy {self.path} is damaged ({error}). Delete it; the next call makes it again."
                ) from error


def store(path: Path, halves: Mapping[str, Half], classes: tuple[str, ...], source: str) -> Stored:
    """Write both halves to the cache, whole or not at all."""
    tensors = {}
    for which, (pixels, labels) in halves.items():
        tensors[f"{which}_pixels"] = pixels
        tensors[f"{which}_labels"] = labels.to(torch.uint8)  # no data set here has more than 256 classes
    write_tensors(path, tensors, {"source": source, "classes": json.dumps(classes)})
    return Stored(path)


def stored(
    name: str,
    title: str,
    place: Path | None,
    build: Callable[[Path], tuple[dict[str, Half], tuple[str, ...]]],
) -> Stored:
    """The cached copy of the data set in `place`, made by `build` at first; without a place, the only one."""
    if place is not None:
        path = cache_folder() / f"{name}-{fingerprint(place)}.safetensors"
        if path.exists():
            return Stored(path)
        halves, classes = build(place)
        return store(path, halves, classes, str(place))
    copies = cached_copies(name)
    if len(copies) == 1:
        return copies[0]
    if copies:
        places = ", ".join(copy.source for copy in copies)
        raise DataError(f"{title} was read from several places ({places}). Say with root= which one is meant.")
    raise DataError(
        f"{title} is not here. Get its official archive and give root= its path, or the path of the folder "
        "it is in; afterwards root= is no longer needed."
    )


def cached_copies(name: str) -> list[Stored]:
    """Every copy of this data set in the cache."""
    patterns = (f"{name}.safetensors", f"{name}-*.safetensors")  # not name*: cifar10 would find cifar100
    return [Stored(path) for pattern in patterns for path in sorted(cache_folder().glob(pattern))]


def held_out_parts(labels: Tensor) -> dict[str, Tensor]:
    """Positions of train, calibration and validation in a training half without official held-out parts."""
    size = max(1, round(HELD_OUT * len(labels)))
    return disjoint(labels, {"calibration": size, "validation": size}, seed=0)


def split_of(
    name: str,
    split: str,
    half: Callable[[str], Half],
    classes: tuple[str, ...],
    parts: Callable[[Tensor], dict[str, Tensor]] = held_out_parts,
) -> Dataset:
    """One split of a data set that comes in a training and a test half."""
    check_split(split)
    if split == "test":
        return Dataset(*half("test"), classes, name, split)
    pixels, labels = half("train")
    return Dataset(pixels, labels, classes, name, split).take(parts(labels)[split])


def content_digest(half: Half) -> str:
    """SHA-256 of the pixels in [N, C, H, W] order followed by the labels, one byte each."""
    digest = hashlib.sha256()
    for tensor in half:
        digest.update(tensor.to(torch.uint8).contiguous().numpy().tobytes())
    return digest.hexdigest()
