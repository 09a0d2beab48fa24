"""Pictures decoded once: into memory, or, where they are too many for it, into a file whose rows are read when used."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from alu.data.pictures import read_picture
from alu.data.stored import cache_folder
from alu.storage import explained, replacing

IN_MEMORY = 2**31
"""Bytes of pixels that are kept in memory; more of them go to the cache folder."""
DECODING = 2
"""Goes up when a picture's pixels are read in another way than before, so that no older copy is used."""


def decoded(files: Sequence[Path], shape: tuple[int, int], channels: int) -> Tensor:
    """uint8 pixels [N, C, H, W] of picture files; above `IN_MEMORY` bytes they stay on disk until a row is used."""
    size = len(files) * channels * shape[0] * shape[1]
    if size <= IN_MEMORY:
        pixels = torch.empty((len(files), channels, *shape), dtype=torch.uint8)
        for row, file in zip(pixels, files, strict=True):
            row.copy_(read_picture(file, shape, channels))
        return pixels
    path = cache_folder() / f"pictures-{_digest(files, shape, channels)}.bin"
    if not path.exists():
        with replacing(path) as temporary, temporary.open("wb") as out:
            for file in files:
                out.write(read_picture(file, shape, channels).numpy().tobytes())
    with explained(path, "read"):
        mapped = torch.from_file(str(path), shared=False, size=size, dtype=torch.uint8)
    return mapped.view(len(files), channels, *shape)


def _digest(files: Sequence[Path], shape: tuple[int, int], channels: int) -> str:
    """Changes whenever a file does: the decoded copy of other pictures must not be taken for theirs."""
    digest = hashlib.blake2b(f"{DECODING} {shape} {channels}\n".encode(), digest_size=12)
    for file in files:
        with explained(file, "read"):
            facts = file.stat()
        digest.update(f"{file.resolve()} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()
