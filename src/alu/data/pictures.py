"""Picture files -> uint8 tensors: one, all of a folder, and back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from alu import decoding
from alu.data.cache import cache_folder
from alu.decoding import Size
from alu.errors import DataError
from alu.storage import explained, replacing

# fmt: off
EXTENSIONS = frozenset({
    ".avif", ".bmp", ".dib", ".gif", ".ico", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg", ".pbm", ".pcx",
    ".pgm", ".png", ".pnm", ".ppm", ".qoi", ".sgi", ".tga", ".tif", ".tiff", ".webp",
})
# fmt: on
IN_MEMORY = 2**31
"""Bytes of pixels that are kept in memory; more of them go to the cache folder."""
DECODING = 2
"""Goes up when a picture's pixels are read in another way than before, so that no older copy is used."""


def read_picture(path: str | Path, size: Size = None, channels: int | None = None) -> Tensor:
    """The picture as a uint8 tensor [C, H, W]; C is 1, 3 or 4 as in the file unless `channels` is given.

    A picture that is stored rotated or mirrored is turned upright, as its EXIF orientation says.
    `size` (H, W), or one number for both, scales the picture bicubically to cover that size and cuts out its
    centre.
    """
    place = Path(path)
    with explained(place, "read"):
        content = place.read_bytes()
    return decode(content, str(place), size, channels)


def decode(content: bytes, who: str, size: Size = None, channels: int | None = None) -> Tensor:
    """The same for a picture's bytes; `who` names it in an error."""
    return torch.from_numpy(decoding.decode(content, who, size, channels))


def decode_all(files: Sequence[Path], shape: tuple[int, int], channels: int) -> Tensor:
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


def as_picture(image: Tensor) -> Image.Image:
    """An image [C, H, W] in [0, 1] as a picture with 8 bits for a value."""
    pixels = (image * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def find_pictures(paths: Iterable[str | Path] | str | Path) -> list[Path]:
    """The files named, and all pictures in the folders named and below, each folder's sorted by name.

    Hidden files are passed over, and links to folders inside a folder are not followed.
    """
    found: list[Path] = []
    for path in map(Path, [paths] if isinstance(paths, str | Path) else paths):
        with explained(path, "read"):
            if path.is_dir():
                found += [file for file in sorted(path.rglob("*")) if _is_picture(file, path)]
            elif path.exists():
                found.append(path)
            else:
                raise DataError(f"{path} does not exist. Give the path of a picture or of a folder with pictures.")
    return list(dict.fromkeys(found))


def _is_picture(file: Path, root: Path) -> bool:
    hidden = any(part.startswith(".") for part in file.relative_to(root).parts)
    return file.suffix.lower() in EXTENSIONS and not hidden and file.is_file()
