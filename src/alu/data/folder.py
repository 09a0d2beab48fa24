"""The user's own pictures: one folder per class."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from alu.data.dataset import Dataset
from alu.data.decoded import decoded
from alu.data.pictures import Size, channels_of, checked_size, find_pictures, opened, shown_size
from alu.data.splits import drawn, own_part
from alu.errors import DataError
from alu.storage import explained


@dataclass(frozen=True)
class _Listing:
    """Picture files in order, with a label each."""

    files: list[Path]
    labels: Tensor
    classes: tuple[str, ...]


def folder(
    root: str | Path,
    split: str = "all",
    n: int | None = None,
    seed: int = 0,
    *,
    size: Size = None,
    channels: int | None = None,
) -> Dataset:
    """Pictures as images [N, C, H, W]; the sub-folders, sorted by name, are the classes.

    Splits are seeded: 70 % train, 15 % calibration, 5 % validation, 10 % test; "all" is everything. If `root`
    has sub-folders train and test (or val), test comes from its own and the rest from train. All pictures
    must have one size unless `size` is given; C is the largest number of channels among them unless
    `channels` is given. Pictures that do not fit memory are read from disk as they are used.
    """
    place = Path(root)
    name = place.resolve().name
    listing, given = _list_splits(place)
    part = own_part(listing.labels, split, given)
    chosen = part[drawn(len(part), n, seed, name, split)]
    shape, count = _agreed(listing.files, size, channels)
    pixels = decoded([listing.files[position] for position in chosen.tolist()], shape, count)
    return Dataset(pixels, listing.labels[chosen], listing.classes, name, split, chosen)


def _list_splits(place: Path) -> tuple[_Listing, dict[str, Tensor]]:
    """All pictures below `place`, and the positions of the splits that have a folder of their own."""
    names = {path.name for path in _sub_folders(place)}
    measured = {"test": "test", "validation": "val"} if {"test", "val"} <= names else {}
    measured = measured or {"test": next((name for name in ("test", "val") if name in names), "")}
    if "train" not in names or not measured["test"]:
        return _list_classes(place), {}
    whole = _list_classes(place / "train")
    given = {}
    for split, name in measured.items():
        part = _list_classes(place / name)
        strange = sorted(set(part.classes) - set(whole.classes))
        if strange:
            raise DataError(
                f"{place / name / strange[0]} is a class that {place / 'train'} does not have. Add it there."
            )
        given[split] = torch.arange(len(part.files)) + len(whole.files)
        label_of = torch.tensor([whole.classes.index(label) for label in part.classes])
        whole = _Listing(whole.files + part.files, torch.cat([whole.labels, label_of[part.labels]]), whole.classes)
    return whole, given


def _list_classes(place: Path) -> _Listing:
    classes = _sub_folders(place)
    if len(classes) < 2:
        found = f"one folder, {classes[0].name}" if classes else "no folder"
        raise DataError(
            f"{place} holds {found}; expected one sub-folder per class, at least two, with that class's pictures in it."
        )
    files: list[Path] = []
    labels: list[int] = []
    for label, folder_ in enumerate(classes):
        pictures = find_pictures(folder_)
        if not pictures:
            raise DataError(f"The class folder {folder_} holds no picture. Add pictures to it or remove it.")
        files += pictures
        labels += [label] * len(pictures)
    return _Listing(files, torch.tensor(labels), tuple(path.name for path in classes))


def _sub_folders(place: Path) -> list[Path]:
    if not place.is_dir():
        raise DataError(f"{place} is not a folder. Give the folder that holds one sub-folder of pictures per class.")
    with explained(place, "read"):
        return sorted(path for path in place.iterdir() if path.is_dir() and not path.name.startswith("."))


def _agreed(files: list[Path], size: Size, channels: int | None) -> tuple[tuple[int, int], int]:
    """Height, width and channels, from the headers of all files: no split may decide for itself."""
    shape = checked_size(size)
    first, most = "", 1
    for file in files:
        with opened(file, str(file)) as picture:
            most = max(most, channels_of(picture))
            if size is not None:
                continue
            width, height = shown_size(picture)
            if shape is None:
                shape, first = (height, width), str(file)
            elif shape != (height, width):
                raise DataError(
                    f"{file} is {width} x {height} pixels, but {first} is {shape[1]} x {shape[0]}. "
                    "Make all pictures one size, or give size= (on the command line --size) to scale them."
                )
    assert shape is not None  # there is at least one file
    return shape, channels or most
