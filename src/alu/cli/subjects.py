"""The images that a command evaluates or attacks on, from what the user typed."""

from __future__ import annotations

from pathlib import Path

from alu import data as datasets
from alu.cli.data import parse_size
from alu.data import Dataset


def find_images(name: str, n: int | None, seed: int, root: Path | None, size: str | None) -> Dataset:
    """`n` test images of a data set."""
    return datasets.open_dataset(name, "test", root=root, size=parse_size(size)).draw(n, seed)
