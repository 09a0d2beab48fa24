"""The user's own images: a folder with one sub-folder of pictures per class, or arrays in an .npz file."""

from __future__ import annotations

import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alu.data.dataset import Dataset, checked_labels, checked_pixels
from alu.data.pictures import decode_all, find_pictures
from alu.data.splits import drawn, own_part
from alu.decoding import Size, channels_of, checked_size, opened, upright_size
from alu.errors import AluError, DataError, InputError, UntrustedError
from alu.storage import explained

SPLIT_FOLDERS = {
    "train": "train", "training": "train",
    "test": "test", "testing": "test",
    "val": "validation", "valid": "validation", "validation": "validation",
}  # fmt: skip
"""Lower-case names of folders that hold a split and not a class, if there is one for train among them."""
NO_CLASS = "__MACOSX"  # what macOS adds to zip files
NAMES = (("images", "labels"), ("x", "y"))
CHANNELS = (1, 3, 4)
MOST_CLASSES = 100_000  # where classes have no names; a label above it is no label
Array = np.ndarray[Any, np.dtype[Any]]


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
    pixels = decode_all([listing.files[position] for position in chosen.tolist()], shape, count)
    return Dataset(pixels, listing.labels[chosen], listing.classes, name, split, chosen)


def _list_splits(place: Path) -> tuple[_Listing, dict[str, Tensor]]:
    """All pictures below `place`, and the positions of the splits that have a folder of their own."""
    folders = _split_folders(place)
    if "train" not in folders or len(folders) < 2:
        return _list_classes(place), {}
    train = folders.pop("train")
    measured = folders if "test" in folders else {"test": folders["validation"]}
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
    folders: dict[str, Path] = {}
    for path in _sub_folders(place):
        split = SPLIT_FOLDERS.get(path.name.lower())
        if split in folders:
            raise DataError(f"{folders[split]} and {path} both look like the {split} split. Rename or remove one.")
        if split is not None:
            folders[split] = path
    return folders


def _list_classes(place: Path) -> _Listing:
    classes = _sub_folders(place)
    if len(classes) < 2:
        inside = f"one folder, {classes[0].name}" if classes else "no folder"
        raise DataError(
            f"{place} holds {inside}; expected one sub-folder per class, at least two, with its pictures in it."
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
            width, height = upright_size(picture)
            if shape is None:
                shape, first = (height, width), str(file)
            elif shape != (height, width):
                raise DataError(
                    f"{file} is {width} x {height} pixels, but {first} is {shape[1]} x {shape[0]}. "
                    "Make all pictures one size, or give size= to scale them."
                )
    assert shape is not None  # there is at least one file
    # One picture with an alpha channel does not make the others transparent: it is read without.
    common = min(3, max(counts)) if len(counts) > 1 else counts.pop()
    return shape, common if channels is None else channels


def npz(path: str | Path, split: str = "all", n: int | None = None, seed: int = 0) -> Dataset:
    """Images [N, C, H, W] from the arrays `images` and `labels` (or `x` and `y`) of an .npz file.

    Images are [N, C, H, W], [N, H, W, C] or [N, H, W], uint8 or floating point in [0, 1]; labels are whole
    numbers [N]; `classes`, a list of names, may be there. Splits are those of `folder`.
    """
    place = Path(path)
    arrays = _read(place)
    pair = next((pair for pair in NAMES if set(pair) <= set(arrays)), None)
    if pair is None:
        raise DataError(
            f"{place} holds {', '.join(sorted(arrays)) or 'nothing'}; expected the arrays images and labels."
        )
    pixels, labels = _pixels(arrays[pair[0]], place), _labels(arrays[pair[1]], place)
    whole = Dataset(pixels, labels, _classes(arrays.get("classes"), labels, place), place.name, split)
    return whole.take(own_part(labels, split)).draw(n, seed)


def _read(place: Path) -> dict[str, Array]:
    try:
        with explained(place, "read"), place.open("rb") as file:
            if file.read(4) not in (b"PK\x03\x04", b"PK\x05\x06"):  # the second: an archive without arrays
                raise DataError(
                    f"{place} is not an .npz file. Write it with numpy.savez(path, images=..., labels=...)."
                )
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                known = {*NAMES[0], *NAMES[1], "classes"}
                return {name: archive[name] if name in known else np.empty(0) for name in archive.files}
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, MemoryError) as error:
        raise DataError(f"{place} is damaged or truncated ({error}). Write it again.") from error
    except AluError:
        raise
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise UntrustedError(
                f"{place} holds an array of Python objects, which would run code when read. Save "
                "plain numbers: images as uint8, labels as int64, classes as text."
            ) from error
        raise DataError(f"{place} cannot be read ({error}). Write it again.") from error


def _pixels(images: Array, place: Path) -> Tensor:
    if not len(images.shape) or not len(images):
        raise InputError(f"{place} holds no image: its images have shape {list(images.shape)}. Write some into it.")
    if images.ndim == 3:
        images = images[:, None]
    elif images.ndim == 4 and images.shape[1] not in CHANNELS and images.shape[3] in CHANNELS:
        images = images.transpose(0, 3, 1, 2)
    if images.ndim != 4 or images.shape[1] not in CHANNELS or not images.size:
        raise InputError(
            f"{place}: images of shape {list(images.shape)} are neither [N, C, H, W] nor [N, H, W, C] nor "
            "[N, H, W] with 1, 3 or 4 channels."
        )
    if images.dtype.kind == "f":
        images = images.astype(np.float32)  # torch does not read every precision and byte order
    return checked_pixels(str(place), np.ascontiguousarray(images))


def _labels(labels: Array, place: Path) -> Tensor:
    if labels.ndim == 2 and labels.shape[1] == 1:  # as Keras gives them
        labels = labels[:, 0]
    if labels.dtype.kind in "iu":
        if labels.size and int(labels.max()) >= MOST_CLASSES:
            raise InputError(
                f"{place}: a label is {int(labels.max())}; labels must be class indices from 0, below {MOST_CLASSES}."
            )
        labels = labels.astype(np.int64)  # torch does not read every byte order
    return checked_labels(str(place), labels)


def _classes(names: Array | None, labels: Tensor, place: Path) -> tuple[str, ...]:
    if names is None:
        return tuple(str(label) for label in range(int(labels.max()) + 1 if len(labels) else 0))
    if names.ndim != 1 or names.dtype.kind != "U":
        raise InputError(f"{place}: classes must be a list of names; it is {names.dtype} of shape {list(names.shape)}.")
    return tuple(str(name) for name in names)
