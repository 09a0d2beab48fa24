"""The bytes of a picture file -> uint8 pixels, decoded safely; what is no picture gives an error of one sentence. No
torch."""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from alu.errors import AluError, DataError, UsageError

Pixels = NDArray[np.uint8]
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
Size = int | tuple[int, int] | None


def decode(content: bytes, who: str, size: Size = None, channels: int | None = None) -> Pixels:
    """The picture as uint8 pixels [C, H, W]; C is 1, 3 or 4 as in the file unless `channels` is given.

    A picture that is stored rotated or mirrored is turned upright, as its EXIF orientation says.
    `size` (H, W), or one number for both, scales the picture bicubically to cover that size and cuts out its
    centre. `who` names it in an error.
    """
    shape = checked_size(size)
    with opened(content, who) as picture:
        return pixels_of(picture, shape, channels)


def fitted(
    content: bytes, who: str, shape: tuple[int, ...], resize: bool, advice: str, most_pixels: int | None = None
) -> Pixels:
    """The picture as a defence reads it, [C, H, W] of this shape; one of another size is scaled if `resize`, else
    refused with `advice`, a sentence. Size and number of pixels are looked at before anything is decoded."""
    channels, height, width = shape
    with opened(content, who) as picture:
        across, down = picture.size
        if most_pixels is not None and across * down > most_pixels:
            raise DataError(f"{who} has {across} x {down} pixels; more than {most_pixels} are not decoded.")
        if not resize and {across, down} != {height, width}:  # in either order: it may yet be turned
            raise DataError(_other_size(who, picture.size, shape, advice))
        pixels = pixels_of(picture, (height, width) if resize else None, channels)
    if pixels.shape != tuple(shape):
        raise DataError(_other_size(who, (pixels.shape[2], pixels.shape[1]), shape, advice))
    return pixels


def _other_size(who: str, size: tuple[int, int], shape: tuple[int, ...], advice: str) -> str:
    return f"{who} is {size[0]} x {size[1]} pixels; this defence reads {shape[2]} x {shape[1]}. {advice}"


def pixels_of(picture: Image.Image, shape: tuple[int, int] | None, channels: int | None) -> Pixels:
    """uint8 pixels [C, H, W] of an open picture, upright, scaled to cover `shape` (H, W) if that is given."""
    if channels is not None and channels not in MODES:
        raise UsageError(f"channels={channels}: a picture has 1 (gray), 3 (RGB) or 4 (RGBA) channels.")
    mode = MODES[channels or channels_of(picture)]
    picture.load()  # before orientation is asked for: Pillow turns a TIFF by itself here
    ready = _to_mode(picture, mode)
    orientation = orientation_of(picture)
    if orientation in TURNS:
        ready = ready.transpose(TURNS[orientation])
    if shape is not None and ready.size != shape[::-1]:
        ready = ImageOps.fit(ready, shape[::-1], Image.Resampling.BICUBIC)
    pixels = np.array(ready, dtype=np.uint8)
    return np.ascontiguousarray(pixels.reshape(*pixels.shape[:2], -1).transpose(2, 0, 1))


class _PillowQuiet:
    """Pillow's remarks on metadata ignored, and too many pixels an error, while any thread decodes.

    Python keeps one list of filters for all threads. The first to decode sets it and the last puts it back: if each
    did both, one would restore what another had set.
    """

    def __init__(self) -> None:
        self.lock, self.users, self.before = threading.Lock(), 0, warnings.catch_warnings()

    def __enter__(self) -> None:
        with self.lock:
            if not self.users:
                self.before = warnings.catch_warnings()
                self.before.__enter__()
                warnings.simplefilter("ignore")
                warnings.simplefilter("error", Image.DecompressionBombWarning)
            self.users += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.users -= 1
            if not self.users:
                self.before.__exit__(None, None, None)


_QUIET = _PillowQuiet()


@contextmanager
def opened(content: bytes | Path, who: str) -> Iterator[Image.Image]:
    """An open picture whose header was read; every way in which it can be broken becomes a DataError."""
    try:
        with (
            _QUIET,
            Image.open(io.BytesIO(content) if isinstance(content, bytes) else content, formats=_formats()) as it,
        ):
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


def checked_size(size: Size) -> tuple[int, int] | None:
    """Height and width, both at least 1, or None."""
    if size is None:
        return None
    shape = tuple(size) if isinstance(size, tuple | list) else (size, size)
    if len(shape) != 2 or not all(type(side) is int and 1 <= side <= 4096 for side in shape):
        raise UsageError(f"size={size!r}: expected (height, width) or one number for both, from 1 to 4096.")
    return shape[0], shape[1]


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
