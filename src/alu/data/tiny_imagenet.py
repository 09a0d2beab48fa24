"""Tiny ImageNet from its official folder or archive, whole or a subset, decoded once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path, PurePosixPath

import torch
from torch import Tensor

from alu.data.cache import Half, Source, files_in, split_of
from alu.data.dataset import Dataset
from alu.data.pictures import decode
from alu.errors import DataError

TITLE = "Tiny ImageNet"
LISTS = ("wnids.txt", "words.txt", "val_annotations.txt")
SIDE = 64
Key = tuple[str, str]
"""WordNet identifier, empty for an image of val, and file name."""


def tiny_imagenet(split: str, n: int | None = None, seed: int = 0, root: str | Path | None = None) -> Dataset:
    """Tiny ImageNet images [N, 3, 64, 64] with 200 labels in the order of the sorted WordNet identifiers.

    The official validation images are the test split, since the official test images have no labels;
    calibration and validation get 5 % of the training images each. `root` is the archive or a folder with it
    or its content.
    """
    copy = TINY_IMAGENET.find(root)
    return split_of("tiny-imagenet", split, copy.half, copy.classes).draw(n, seed)


def _decode(place: Path) -> tuple[dict[str, Half], tuple[str, ...]]:
    lists: dict[str, str] = {}
    train: dict[Key, Tensor] = {}
    val: dict[Key, Tensor] = {}
    for name, content in files_in(place, _is_wanted):
        path = PurePosixPath(name)
        if path.name in LISTS:
            lists[path.name] = content.decode("utf-8", "replace")
        elif path.parts[-3] == "val":
            val["", path.name] = _decoded(content, name, place)
        else:
            train[path.parts[-3], path.name] = _decoded(content, name, place)
    missing = [name for name in LISTS if name not in lists]
    if missing or not train or not val:
        missing += ["training images"] * (not train) + ["val images"] * (not val)
        raise DataError(f"{TITLE} in {place} lacks {', '.join(missing)}. Get a fresh copy of tiny-imagenet-200.")
    identifiers = sorted(lists["wnids.txt"].split())
    label_of = {identifier: label for label, identifier in enumerate(identifiers)}
    rows = (line.split("\t") for line in lists["val_annotations.txt"].splitlines())
    answers = {row[0]: row[1] for row in rows if len(row) > 1}
    try:
        train_labels = [label_of[identifier] for identifier, _ in sorted(train)]
        val_labels = [label_of[answers[file]] for _, file in sorted(val)]
    except KeyError as error:
        raise DataError(f"{TITLE} in {place} has no label for {error.args[0]}. Get a fresh copy.") from error
    halves = {"train": _half(train, train_labels), "test": _half(val, val_labels)}
    return halves, _class_names(identifiers, lists["words.txt"])


def _is_wanted(name: str) -> bool:
    path = PurePosixPath(name)
    if path.name in LISTS:
        return True
    is_picture = len(path.parts) >= 3 and path.suffix == ".JPEG" and path.parts[-2] == "images"
    # The official test folder, test/images, has no labels.
    return is_picture and (path.parts[-3] == "val" or (len(path.parts) >= 4 and path.parts[-4] == "train"))


def _decoded(content: bytes, name: str, place: Path) -> Tensor:
    pixels = decode(content, f"{name} in {place}", channels=3)
    if pixels.shape[1:] != (SIDE, SIDE):
        height, width = pixels.shape[1:]
        raise DataError(f"{name} in {place} is {width} x {height} pixels; every image of {TITLE} is {SIDE} x {SIDE}.")
    return pixels


def _half(images: dict[Key, Tensor], labels: list[int]) -> Half:
    pixels = torch.empty((len(images), 3, SIDE, SIDE), dtype=torch.uint8)
    # Sorted: the same order from a folder, where files are sorted, and from any archive.
    for row, key in zip(pixels, sorted(images), strict=True):
        row.copy_(images.pop(key))  # freed as it is copied: the whole set twice would not fit everywhere
    return pixels, torch.tensor(labels)


def _class_names(identifiers: list[str], words: str) -> tuple[str, ...]:
    named = dict(line.split("\t", 1) for line in words.splitlines() if "\t" in line)
    first = [named.get(identifier, identifier).split(",")[0].strip() for identifier in identifiers]
    count = Counter(first)
    return tuple(
        name if count[name] == 1 else f"{name} ({identifier})"
        for name, identifier in zip(first, identifiers, strict=True)
    )


TINY_IMAGENET = Source(
    "tiny-imagenet",
    TITLE,
    ("tiny-imagenet-200.zip", "tiny-imagenet-*.tar*", "tiny-imagenet-*.zip"),
    ("wnids.txt",),
    _decode,
)
