"""What a command evaluates or attacks, and on which images, from the words a user types."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from alu import data as datasets
from alu import models
from alu.check import check_classifier
from alu.cli.data import parse_size
from alu.data import Dataset
from alu.defense import Defense
from alu.errors import InputError
from alu.modes import evaluating


def refuse_strangers(model: nn.Module, images: Dataset, device: Any) -> None:
    """Refuse images that a subject does not read, before anything is measured on them."""
    who = type(model).__name__
    reads: tuple[int, ...] = ()
    logits: Callable[[Any], Any] = model
    card = getattr(model, "card", None)
    if isinstance(model, Defense):
        reads, logits = model.shape, model.logits
    elif isinstance(card, models.Card):
        side = card.architecture.get("size", 32)
        who, reads = card.name, (card.architecture.get("channels", 3), side, side)
    if reads and tuple(reads) != tuple(images.shape):
        wanted, came = (" x ".join(map(str, shape)) for shape in (reads, images.shape))
        raise InputError(
            f"{who} reads images of {wanted} (channels, height, width); those in {images.name} are {came}. Choose "
            "other images, or scale a folder's pictures with --size."
        )
    few = images.images[:16].to(device)
    with evaluating(model):
        check_classifier(logits, few, images.name, images.classes, f"The subject {who}")


def find_images(name: str, n: int | None, seed: int, root: Path | None, size: str | None) -> Dataset:
    """`n` test images of a data set."""
    return datasets.open_dataset(name, "test", root=root, size=parse_size(size)).draw(n, seed)
