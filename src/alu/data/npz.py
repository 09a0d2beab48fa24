"""The user's own arrays: an .npz file with images and labels."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alu.data.dataset import Dataset
from alu.data.splits import own_part
from alu.errors import AluError, DataError, InputError, UntrustedError
from alu.storage import explained

NAMES = (("images", "labels"), ("x", "y"))
CHANNELS = (1, 3, 4)
MOST_CLASSES = 100_000  # where classes have no names; a label above it is no label
Array = np.ndarray[Any, np.dtype[Any]]


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
        raise DataError(f"{place} is damaged or cut short ({error}). Write it again.") from error
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
    if images.dtype != np.uint8 and images.dtype.kind != "f":
        raise InputError(
            f"{place}: images of type {images.dtype} have no agreed range. Save uint8, or floats in [0, 1]."
        )
    tensor = torch.from_numpy(np.ascontiguousarray(images, np.uint8 if images.dtype == np.uint8 else np.float32))
    if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
        raise InputError(
            f"{place}: {int((~torch.isfinite(tensor)).sum())} pixels are NaN or infinite. Remove those images."
        )
    return tensor


def _labels(labels: Array, place: Path) -> Tensor:
    if labels.ndim == 2 and labels.shape[1] == 1:  # as Keras gives them
        labels = labels[:, 0]
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise InputError(
            f"{place}: labels must be whole numbers of shape [N]; these are {labels.dtype} of shape "
            f"{list(labels.shape)}. Save labels.argmax(1) if they are one-hot."
        )
    if len(labels) and int(labels.max()) >= MOST_CLASSES:
        raise InputError(
            f"{place}: a label is {int(labels.max())}; labels must be numbers of classes, counted from 0 and below "
            f"{MOST_CLASSES}."
        )
    return torch.from_numpy(labels.astype(np.int64))


def _classes(names: Array | None, labels: Tensor, place: Path) -> tuple[str, ...]:
    if names is None:
        return tuple(str(label) for label in range(int(labels.max()) + 1 if len(labels) else 0))
    if names.ndim != 1 or names.dtype.kind != "U":
        raise InputError(f"{place}: classes must be a list of names; it is {names.dtype} of shape {list(names.shape)}.")
    return tuple(str(name) for name in names)
