"""Pictures that are stored rotated or mirrored, as cameras store them, are read the way up that their EXIF says."""

import hashlib
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import alu.data
from alu.data import pictures

ORIENTATION = 0x0112
Pixels = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]

# How the camera's sensor saw an upright picture, from EXIF's own words: where row 0 and column 0 of the file belong.
STORED: dict[int, Callable[[Pixels], Pixels]] = {
    1: lambda upright: upright,  # row 0 is the top, column 0 the left
    2: lambda upright: upright[:, ::-1],  # top, right
    3: lambda upright: upright[::-1, ::-1],  # bottom, right
    4: lambda upright: upright[::-1],  # bottom, left
    5: lambda upright: upright.swapaxes(0, 1),  # left, top
    6: lambda upright: upright[:, ::-1].swapaxes(0, 1),  # right, top
    7: lambda upright: upright[::-1, ::-1].swapaxes(0, 1),  # right, bottom
    8: lambda upright: upright[::-1].swapaxes(0, 1),  # left, bottom
}
FORMATS: dict[str, dict[str, object]] = {
    "photo.jpg": {"quality": 100, "subsampling": 0},
    "photo.png": {},
    "photo.webp": {"lossless": True},
    "raw.tif": {},
    "packed.tif": {"compression": "tiff_deflate"},
}


def upright() -> Pixels:
    """16 x 24 pixels in blocks of 8, so that JPEG keeps them; every block has another colour."""
    blocks = np.random.default_rng(4).permutation(18).reshape(2, 3, 3) * 14
    return blocks.repeat(8, 0).repeat(8, 1).astype(np.uint8)


def tensor(pixels: Pixels) -> Tensor:
    """[C, H, W] from [H, W] or [H, W, C]."""
    return torch.from_numpy(pixels.reshape(*pixels.shape[:2], -1).transpose(2, 0, 1).copy())


def save(path: Path, pixels: Pixels, orientation: int, **options: object) -> Path:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.ascontiguousarray(pixels)).save(path, exif=exif, **options)  # type: ignore[arg-type]
    return path


def with_chunk(png: bytes, kind: bytes, content: bytes) -> bytes:
    """A PNG file with one more chunk after its pixels, where ImageMagick writes EXIF."""
    chunk = struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    return png[:-12] + chunk + png[-12:]


@pytest.mark.parametrize("orientation", STORED)
@pytest.mark.parametrize("name", FORMATS)
def test_every_orientation_is_turned_upright(name: str, orientation: int, tmp_path: Path) -> None:
    path = save(tmp_path / name, STORED[orientation](upright()), orientation, **FORMATS[name])
    found = alu.data.read_picture(path)
    assert found.shape == (3, 16, 24)
    assert int((found.int() - tensor(upright()).int()).abs().max()) <= (2 if name.endswith("jpg") else 0)


@pytest.mark.parametrize("orientation", STORED)
def test_exif_after_the_pixels_of_a_png_counts_too(orientation: int, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    path = tmp_path / "late.png"
    Image.fromarray(np.ascontiguousarray(STORED[orientation](upright()))).save(path)
    path.write_bytes(with_chunk(path.read_bytes(), b"eXIf", exif.tobytes().removeprefix(b"Exif\0\0")))
    assert torch.equal(alu.data.read_picture(path), tensor(upright()))
    save(tmp_path / "set" / "a" / "plain.png", upright(), 1)
    (tmp_path / "set" / "b").mkdir()
    path.rename(tmp_path / "set" / "b" / "late.png")
    assert alu.data.folder(tmp_path / "set").shape == (3, 16, 24)


def test_gray_wide_and_palette_pictures_are_turned_too(tmp_path: Path) -> None:
    gray = upright()[:, :, 0]
    wide = save(tmp_path / "16.png", STORED[6](gray.astype(np.uint16) * 257), 6)  # type: ignore[arg-type]
    assert torch.equal(alu.data.read_picture(wide), tensor(gray))
    exif = Image.Exif()
    exif[ORIENTATION] = 8
    Image.fromarray(np.ascontiguousarray(STORED[8](upright()))).quantize(64).save(tmp_path / "p.png", exif=exif)
    assert torch.equal(alu.data.read_picture(tmp_path / "p.png"), tensor(upright()))


def test_a_picture_is_turned_before_it_is_scaled(tmp_path: Path) -> None:
    lying = save(tmp_path / "lying.png", STORED[6](upright()), 6)
    standing = save(tmp_path / "standing.png", upright(), 1)
    for size in (16, (8, 20), (20, 8)):
        assert torch.equal(alu.data.read_picture(lying, size), alu.data.read_picture(standing, size))


@pytest.mark.parametrize("orientation", [0, 9, 255, 65535])
@pytest.mark.parametrize("name", [name for name in FORMATS if name != "packed.tif"])  # which libtiff does not write
def test_an_orientation_that_does_not_exist_is_read_as_stored(name: str, orientation: int, tmp_path: Path) -> None:
    found = alu.data.read_picture(save(tmp_path / name, upright(), orientation, **FORMATS[name]))
    assert found.shape == (3, 16, 24)
    assert int((found.int() - tensor(upright()).int()).abs().max()) <= 2


BROKEN = {
    "text": b"Exif\0\0this is no EXIF at all",
    "nothing": b"Exif\0\0",
    "header only": b"Exif\0\0II*\0",
    "far away": b"Exif\0\0II*\0\xff\xff\xff\x7f",
    "more entries than bytes": b"Exif\0\0II*\0\x08\0\0\0\xff\xff\x12\x01\x03\0\x01\0\0\0",
    "a value of 4 GB": b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\xff\xff\xff\xff\x06\0\0\0",
    "its orientation is text": b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x02\0\x04\0\0\0six\0\0\0\0\0",
    "a list of itself": b"Exif\0\0II*\0\x08\0\0\0\x01\0\x69\x87\x04\0\x01\0\0\0\x08\0\0\0\x08\0\0\0",
    "numbers": b"Exif\0\0II*\0\x08\0\0\0" + np.random.default_rng(0).bytes(400),
}


@pytest.mark.parametrize("name", ["photo.jpg", "photo.png", "photo.webp"])
@pytest.mark.parametrize("block", BROKEN.values(), ids=BROKEN)
def test_a_broken_exif_block_does_not_cost_the_picture(name: str, block: bytes, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        Image.fromarray(upright()).save(tmp_path / folder / name, exif=block, **FORMATS[name])  # type: ignore[arg-type]
    found = alu.data.folder(tmp_path).pixels[1]
    assert int((found.int() - tensor(upright()).int()).abs().max()) <= 2


def test_a_tiff_with_a_broken_exif_list_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    Image.fromarray(upright()).save(path, tiffinfo={0x8769: 2**31 - 1})  # the place of its EXIF list: nowhere
    assert torch.equal(alu.data.read_picture(path), tensor(upright()))


def mixed(root: Path) -> Path:
    """Sixteen pictures that show the same, each stored in one of eight ways."""
    for label in ("cat", "dog"):
        for orientation, stored in STORED.items():
            save(root / label / f"{orientation}.png", stored(upright()), orientation)
    return root


def test_a_folder_counts_sizes_as_pictures_are_shown(tmp_path: Path) -> None:
    found = alu.data.folder(mixed(tmp_path / "mixed"))
    assert found.shape == (3, 16, 24)
    assert torch.equal(found.pixels, tensor(upright()).expand(16, -1, -1, -1))
    for label, name in (("cat", "lying.tif"), ("dog", "lying.jpg")):
        save(tmp_path / "mixed" / label / name, STORED[6](upright()), 6, **FORMATS.get(name, {}))
    assert alu.data.folder(tmp_path / "mixed").shape == (3, 16, 24)


def test_pictures_kept_on_disk_are_upright_and_never_an_older_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALU_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(pictures, "IN_MEMORY", 0)
    root = mixed(tmp_path / "mixed")
    # The name under which a version that did not know orientation kept these pictures.
    old = hashlib.blake2b(b"(16, 24) 3\n", digest_size=12)
    for file in alu.data.find_pictures(root):
        facts = file.stat()
        old.update(f"{file.resolve()} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / f"pictures-{old.hexdigest()}.bin").write_bytes(bytes(16 * 3 * 16 * 24))
    assert torch.equal(alu.data.folder(root).pixels, tensor(upright()).expand(16, -1, -1, -1))
