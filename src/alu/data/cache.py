"""Known data sets in the cache: decoded once, then read from one safetensors file, half by half."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from alu.data.archives import fingerprint
from alu.data.dataset import Dataset
from alu.data.splits import SPLITS, disjoint
from alu.errors import DataError, check_choice
from alu.storage import explained, write_tensors

Half = tuple[Tensor, Tensor]  # uint8 pixels [N, C, H, W] and labels [N]
HELD_OUT = 0.05  # of the training images, for calibration and for validation each


def cache_folder() -> Path:
    """The folder of decoded data sets: the environment variable ALU_CACHE, or ~/.cache/alu."""
    named = os.environ.get("ALU_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "alu"


@dataclass(frozen=True)
class CachedCopy:
    """A safetensors file with train_pixels, train_labels, test_pixels and test_labels."""

    path: Path

    @property
    def source(self) -> str:
        """Where the images were read from."""
        with self._opened() as file:
            return str((file.metadata() or {}).get("source", "unknown"))

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of their labels."""
        with self._opened() as file:
            return tuple(json.loads((file.metadata() or {}).get("classes", "[]")))

    def half(self, which: str) -> Half:
        """Pixels and int64 labels of "train" or "test"; pixels stay on disk until they are used."""
        with self._opened() as file:
            return file.get_tensor(f"{which}_pixels"), file.get_tensor(f"{which}_labels").to(torch.int64)

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        try:
            with explained(self.path, "read"), safe_open(self.path, framework="pt") as file:
                yield file
        except SafetensorError as error:
            raise DataError(
                f"The cached copy {self.path} is damaged ({error}). Delete it; the next call makes it again."
            ) from error


def store(path: Path, halves: Mapping[str, Half], classes: tuple[str, ...], source: str) -> CachedCopy:
    """Write both halves to the cache, whole or not at all."""
    tensors = {}
    for which, (pixels, labels) in halves.items():
        tensors[f"{which}_pixels"] = pixels
        tensors[f"{which}_labels"] = labels.to(torch.uint8)  # no data set here has more than 256 classes
    write_tensors(path, tensors, {"source": source, "classes": json.dumps(classes)})
    return CachedCopy(path)


def cached_copy(
    name: str, title: str, place: Path | None, build: Callable[[Path], tuple[dict[str, Half], tuple[str, ...]]]
) -> CachedCopy:
    """The copy of the data set in `place`, made by `build` on first use; without a place, the only copy there is."""
    if place is not None:
        path = cache_folder() / f"{name}-{fingerprint(place)}.safetensors"
        if path.exists():
            return CachedCopy(path)
        halves, classes = build(place)
        return store(path, halves, classes, str(place))
    copies = cached_copies(name)
    if len(copies) == 1:
        return copies[0]
    if copies:
        places = ", ".join(copy.source for copy in copies)
        raise DataError(f"{title} was read from several places ({places}). Choose one of them with root=.")
    raise DataError(
        f"{title} is not here. Get its official archive and give root= its path, or the path of the folder "
        "it is in; afterwards root= is no longer needed."
    )


def cached_copies(name: str) -> list[CachedCopy]:
    """Every copy of this data set in the cache."""
    patterns = (f"{name}.safetensors", f"{name}-*.safetensors")  # not name*: cifar10 would find cifar100
    return [CachedCopy(path) for pattern in patterns for path in sorted(cache_folder().glob(pattern))]


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
    check_choice("split", split, SPLITS)
    if split == "test":
        return Dataset(*half("test"), classes, name, split)
    pixels, labels = half("train")
    return Dataset(pixels, labels, classes, name, split).take(parts(labels)[split])
