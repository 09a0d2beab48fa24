"""The user's own pictures: one folder per class."""

from __future__ import annotations

import os
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

SPLIT_FOLDERS = {
    "train": "train", "training": "train",
    "test": "test", "testing": "test",
    "val": "validation", "valid": "validation", "validation": "validation",
}  # fmt: skip
"""Names of folders, in small letters, that hold a split and not a class, where there is a train among them."""
NO_CLASS = "__MACOSX"  # what macOS adds to zip files


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
    has sub-folders train and test (or val), test comes from its own and the rest from train; Training, Testing,
    valid and validation mean the same. All pictures must have one size unless `size` is given. Unless `channels` is
    given, C is 1 if all are gray, 4 if all have an alpha channel, and 3 otherwise. Pictures that do not fit memory are
    read from disk as they are used.
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
    found = _split_folders(place)
    if "train" not in found or len(found) < 2:
        return _list_classes(place), {}
    train = found.pop("train")
    measured = found if "test" in found else {"test": found["validation"]}
    whole = _list_classes(train)
    given = {}
    for split in sorted(measured):
        part = _list_classes(measured[split])
        strange = sorted(set(part.classes) - set(whole.classes))
        if strange:
            raise DataError(f"{measured[split] / strange[0]} is a class that {train} does not have. Add it there.")
        given[split] = torch.arange(len(part.files)) + len(whole.files)
        label_of = torch.tensor([whole.classes.index(label) for label in part.classes])
        whole = _Listing(whole.files + part.files, torch.cat([whole.labels, label_of[part.labels]]), whole.classes)
    return whole, given


def _split_folders(place: Path) -> dict[str, Path]:
    """The sub-folders that are named like a split, by split."""
    found: dict[str, Path] = {}
    for path in _sub_folders(place):
        split = SPLIT_FOLDERS.get(path.name.lower())
        if split in found:
            raise DataError(f"{found[split]} and {path} are both named like the {split} images. Rename or remove one.")
        if split is not None:
            found[split] = path
    return found


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
            raise DataError(
                f"The class folder {folder_} holds no picture{_other_file(folder_)}. Add pictures to it or remove it."
            )
        files += pictures
        labels += [label] * len(pictures)
    return _Listing(files, torch.tensor(labels), tuple(_printable(path.name) for path in classes))


def _sub_folders(place: Path) -> list[Path]:
    with explained(place, "read"):
        if not place.is_dir():
            raise DataError(
                f"{place} is not a folder. Give the folder that holds one sub-folder of pictures per class."
            )
        return sorted(
            path
            for path in place.iterdir()
            if path.is_dir() and not path.name.startswith(".") and path.name != NO_CLASS
        )


def _other_file(place: Path) -> str:
    """A half-sentence with the first file of a folder without pictures, since its format may be what is wrong."""
    with explained(place, "read"):
        other = next((file.name for file in sorted(place.rglob("[!.]*")) if file.is_file()), None)
    return "" if other is None else f" in a format that alu reads, only others such as {_printable(other)}"


def _printable(name: str) -> str:
    """A file's name as text that can be printed and written, also where it is not valid UTF-8."""
    return os.fsencode(name).decode("utf-8", "replace")


def _agreed(files: list[Path], size: Size, channels: int | None) -> tuple[tuple[int, int], int]:
    """Height, width and channels, from the headers of all files: no split may decide for itself."""
    shape = checked_size(size)
    first, counts = "", set[int]()
    for file in files:
        with opened(file, str(file)) as picture:
            counts.add(channels_of(picture))
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
    # One picture with an alpha channel does not make the others transparent: it is read without.
    common = min(3, max(counts)) if len(counts) > 1 else counts.pop()
    return shape, common if channels is None else channels
