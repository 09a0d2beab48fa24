"""Picture files -> uint8 tensors, decoded safely; a file that is no picture gives an error of one sentence."""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
import torch
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from alu.data.cache import cache_folder
from alu.errors import AluError, DataError, UsageError
from alu.storage import explained, replacing

# fmt: off
EXTENSIONS = frozenset({
    ".avif", ".bmp", ".dib", ".gif", ".ico", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg", ".pbm", ".pcx",
    ".pgm", ".png", ".pnm", ".ppm", ".qoi", ".sgi", ".tga", ".tif", ".tiff", ".webp",
})
# fmt: on
MODES = {1: "L", 3: "RGB", 4: "RGBA"}
TURNS = {  # EXIF's orientations but 1, and what turns each upright
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
IN_MEMORY = 2**31
"""Bytes of pixels that are kept in memory; more of them go to the cache folder."""
DECODING = 2
"""Goes up when a picture's pixels are read in another way than before, so that no older copy is used."""
Size = int | tuple[int, int] | None


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
    shape = checked_size(size)
    if channels is not None and channels not in MODES:
        raise UsageError(f"channels={channels}: a picture has 1 (gray), 3 (RGB) or 4 (RGBA) channels.")
    with opened(content, who) as picture:
        mode = MODES[channels or channels_of(picture)]
        picture.load()  # before orientation is asked for: Pillow turns a TIFF by itself here
        ready = _to_mode(picture, mode)
        orientation = orientation_of(picture)
        if orientation in TURNS:
            ready = ready.transpose(TURNS[orientation])
        if shape is not None and ready.size != shape[::-1]:
            ready = ImageOps.fit(ready, shape[::-1], Image.Resampling.BICUBIC)
        pixels = np.array(ready, dtype=np.uint8)
    return torch.from_numpy(pixels.reshape(*pixels.shape[:2], -1).transpose(2, 0, 1).copy())


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


@contextmanager
def opened(content: bytes | Path, who: str) -> Iterator[Image.Image]:
    """An open picture whose header was read; every way in which it can be broken becomes a DataError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's remarks on metadata that do not touch the pixels
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content) if isinstance(content, bytes) else content, formats=_formats()) as it:
                yield it
    except AluError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(
            f"{who} has more than {Image.MAX_IMAGE_PIXELS} pixels, far more than any image here needs, "
            "and was not decoded. Remove it or make it smaller."
        ) from error
    except Exception as error:  # each of Pillow's formats fails in its own way on a damaged file
        reason: object = error
        if isinstance(error, UnidentifiedImageError):
            empty = not content if isinstance(content, bytes) else content.stat().st_size == 0
            reason = "the file is empty" if empty else "its content is no known picture format"
        raise DataError(f"{who} cannot be read as a picture ({reason}). Remove it or replace it.") from error


def channels_of(picture: Image.Image) -> int:
    """How many channels keep everything that an open picture shows: 1, 3 or 4."""
    if picture.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in picture.info:
        return 4
    if picture.mode in ("1", "L") or picture.mode.startswith("I"):
        return 1
    return 3


def orientation_of(picture: Image.Image) -> int:
    """EXIF's orientation of an open picture, 1 to 8; 1, as stored, where there is none that makes sense."""
    try:
        orientation = picture.getexif().get(ExifTags.Base.Orientation)
        return int(orientation) if orientation in TURNS else 1
    except Exception:  # a broken EXIF block fails in many ways, and says nothing against the pixels
        return 1


def upright_size(picture: Image.Image) -> tuple[int, int]:
    """Width and height of an open picture when it is upright."""
    width, height = picture.size
    if width == height:
        return width, height
    if picture.format == "TIFF":
        picture.load()  # which turns it; before that, its size may or may not be the turned one
        width, height = picture.size
    return (height, width) if orientation_of(picture) >= 5 else (width, height)


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


def checked_size(size: Size) -> tuple[int, int] | None:
    """Height and width, both at least 1, or None."""
    if size is None:
        return None
    shape = tuple(size) if isinstance(size, tuple | list) else (size, size)
    if len(shape) != 2 or not all(type(side) is int and 1 <= side <= 4096 for side in shape):
        raise UsageError(f"size={size!r}: expected (height, width) or one number for both, from 1 to 4096.")
    return shape[0], shape[1]


def _is_picture(file: Path, root: Path) -> bool:
    hidden = any(part.startswith(".") for part in file.relative_to(root).parts)
    return file.suffix.lower() in EXTENSIONS and not hidden and file.is_file()


def _to_mode(picture: Image.Image, mode: str) -> Image.Image:
    if picture.mode.startswith("I"):
        # Pillow cuts 16-bit gray off at 255 instead of scaling it.
        wide = np.asarray(picture, dtype=np.int64)
        if wide.min() < 0 or wide.max() > 65535:
            raise ValueError("pictures with 32 bits for a pixel have no agreed range; save it with 8 or 16 bits")
        picture = Image.fromarray(((wide + 128) // 257).astype(np.uint8))
    elif picture.mode == "F":
        raise ValueError("floating-point pictures have no agreed range; save it with 8 bits")
    return picture if picture.mode == mode else picture.convert(mode)


@cache
def _formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in Image.ID if name != "EPS")  # EPS would start Ghostscript, which runs programs
