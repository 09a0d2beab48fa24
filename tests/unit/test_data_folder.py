"""The user's own pictures: folders, sizes, channels, and files that are no pictures."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import alu.data
from alu.data import pictures
from alu.errors import DataError, StorageError, UsageError


def picture(path: Path, size: tuple[int, int] = (8, 6), mode: str = "RGB", seed: int = 0) -> Path:
    """A picture of random pixels; size is (width, height) as in Pillow."""
    path.parent.mkdir(parents=True, exist_ok=True)
    channels = len(Image.new(mode, (1, 1)).getbands())
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], channels), dtype=np.uint8)
    Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels, mode=None).save(path)
    return path


def animals(root: Path, per_class: int = 20, mode: str = "RGB") -> Path:
    for k, name in enumerate(["cat", "dog"]):
        for i in range(per_class):
            picture(root / name / f"{i:03d}.png", mode=mode, seed=100 * k + i)
    return root


def test_splits_of_a_folder_are_disjoint_and_repeatable(tmp_path: Path) -> None:
    root = animals(tmp_path / "animals")
    parts = {s: alu.data.folder(root, s) for s in ("train", "calibration", "validation", "test")}
    assert {s: len(part) for s, part in parts.items()} == {
        "train": 28,
        "calibration": 6,
        "validation": 2,
        "test": 4,
    }
    assert len({i for part in parts.values() for i in part.indices.tolist()}) == 40
    whole = alu.data.folder(root)
    assert (len(whole), whole.classes, whole.shape) == (40, ("cat", "dog"), (3, 6, 8))
    for part in parts.values():
        assert torch.equal(part.pixels, whole.pixels[part.indices])
        assert torch.equal(part.labels, whole.labels[part.indices])


def test_a_draw_from_a_folder_is_the_draw_of_a_dataset(tmp_path: Path) -> None:
    root = animals(tmp_path / "animals")
    few, train = alu.data.folder(root, "train", n=5, seed=3), alu.data.folder(root, "train")
    assert torch.equal(few.indices, train.draw(5, 3).indices)
    assert torch.equal(few.pixels, train.draw(5, 3).pixels)
    with pytest.raises(UsageError, match="animals train holds 28 images; n=29"):
        alu.data.folder(root, "train", n=29)


def test_pixels_are_those_of_the_files(tmp_path: Path) -> None:
    root = animals(tmp_path / "animals")
    whole = alu.data.folder(root)
    pixels = np.asarray(Image.open(root / "dog" / "003.png"))
    assert torch.equal(whole.pixels[23], torch.from_numpy(pixels.transpose(2, 0, 1).copy()))


@pytest.mark.parametrize("measured", ["test", "val"])
def test_folders_named_train_and_test_are_used(measured: str, tmp_path: Path) -> None:
    animals(tmp_path / "train", 20)
    animals(tmp_path / measured, 3)
    parts = {s: alu.data.folder(tmp_path, s) for s in ("train", "calibration", "validation", "test", "all")}
    assert [len(part) for part in parts.values()] == [32, 6, 2, 6, 46]
    assert parts["test"].indices.tolist() == list(range(40, 46))
    assert parts["test"].labels.tolist() == [0, 0, 0, 1, 1, 1]


def test_a_val_folder_beside_test_is_the_validation_split(tmp_path: Path) -> None:
    for name, count in (("train", 20), ("test", 3), ("val", 4)):
        animals(tmp_path / name, count)
    sizes = [len(alu.data.folder(tmp_path, s)) for s in ("train", "calibration", "validation", "test")]
    assert sizes == [34, 6, 8, 6]


@pytest.mark.parametrize(
    "names", [("Train", "Test", "Valid"), ("training", "testing", "validation"), ("TRAIN", "TEST", "VAL")]
)
def test_other_names_of_the_splits_are_known(names: tuple[str, ...], tmp_path: Path) -> None:
    for name, count in zip(names, (20, 3, 4), strict=True):
        animals(tmp_path / name, count)
    sizes = [len(alu.data.folder(tmp_path, s)) for s in ("train", "calibration", "validation", "test")]
    assert sizes == [34, 6, 8, 6]


def test_two_folders_for_one_split_are_refused(tmp_path: Path) -> None:
    for name in ("train", "test", "val", "valid"):
        animals(tmp_path / name, 3)
    with pytest.raises(DataError, match="val and .*valid both look like the validation split"):
        alu.data.folder(tmp_path, "test")


def test_a_class_that_train_does_not_have_is_named(tmp_path: Path) -> None:
    animals(tmp_path / "train")
    animals(tmp_path / "test")
    picture(tmp_path / "test" / "emu" / "1.png")
    with pytest.raises(DataError, match=r"test/emu is a class that .*train does not have"):
        alu.data.folder(tmp_path, "test")


@pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("RGB", 3), ("RGBA", 4)])
def test_channels_follow_the_pictures_unless_given(mode: str, channels: int, tmp_path: Path) -> None:
    root = animals(tmp_path, 5, mode)
    assert alu.data.folder(root).shape[0] == channels
    assert alu.data.folder(root, channels=3).shape[0] == 3
    for wrong in (0, 2):
        with pytest.raises(UsageError, match=f"channels={wrong}"):
            alu.data.folder(root, channels=wrong)


def test_one_gray_picture_among_colours_does_not_change_any_split(tmp_path: Path) -> None:
    root = animals(tmp_path)
    picture(root / "dog" / "zebra-gray.png", mode="L")
    assert {alu.data.folder(root, s).shape for s in ("train", "calibration", "validation", "test")} == {(3, 6, 8)}


def test_one_picture_with_alpha_does_not_make_the_others_transparent(tmp_path: Path) -> None:
    root = animals(tmp_path)
    rgba = alu.data.read_picture(picture(root / "dog" / "logo.png", mode="RGBA"))
    Image.new("P", (8, 6)).save(root / "dog" / "palette.png", transparency=0)
    Image.new("CMYK", (8, 6)).save(root / "dog" / "print.jpg")
    whole = alu.data.folder(root)
    assert whole.shape == (3, 6, 8)
    assert torch.equal(whole.pixels[40], rgba[:3])
    assert alu.data.folder(root, channels=4).shape == (4, 6, 8)


def test_different_sizes_need_size(tmp_path: Path) -> None:
    root = animals(tmp_path)
    picture(root / "dog" / "large.png", (30, 20))
    with pytest.raises(DataError, match=r"large\.png is 30 x 20 pixels, but .*000\.png is 8 x 6.*give size="):
        alu.data.folder(root, "train")
    assert alu.data.folder(root, size=5).shape == (3, 5, 5)
    assert alu.data.folder(root, size=(4, 7)).shape == (3, 4, 7)


def test_scaling_covers_and_cuts_the_centre(tmp_path: Path) -> None:
    stripes = np.zeros((10, 30, 3), np.uint8)
    stripes[:, 10:20] = 255  # the middle third is white
    Image.fromarray(stripes).save(tmp_path / "wide.png")
    assert torch.equal(alu.data.read_picture(tmp_path / "wide.png", size=10), torch.full((3, 10, 10), 255).byte())


@pytest.mark.parametrize("size", [0, -3, (3, 0), (1, 2, 3), 10**6, 3.5, "32", True])
def test_an_impossible_size_is_refused(size: int, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"expected .height, width."):
        alu.data.read_picture(picture(tmp_path / "a.png"), size=size)


def test_folders_that_are_no_data_set_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a folder"):
        alu.data.folder(tmp_path / "missing")
    with pytest.raises(DataError, match="holds no folder; expected one sub-folder per class"):
        alu.data.folder(tmp_path)
    picture(tmp_path / "cat" / "1.png")
    with pytest.raises(DataError, match=r"holds one folder, cat; expected .* at least two"):
        alu.data.folder(tmp_path)
    (tmp_path / "dog").mkdir()
    with pytest.raises(DataError, match=r"class folder .*dog holds no picture"):
        alu.data.folder(tmp_path)
    picture(tmp_path / "dog" / "1.png")
    assert len(alu.data.folder(tmp_path)) == 2
    with pytest.raises(DataError, match="2 images are too few to split: the held-out parts take 3"):
        alu.data.folder(tmp_path, "train")


def test_other_files_and_hidden_ones_are_passed_over(tmp_path: Path) -> None:
    root = animals(tmp_path, 3)
    (root / "cat" / "notes.txt").write_text("hello")
    (root / "cat" / "._000.png").write_text("hidden")
    (root / ".cache").mkdir()
    assert len(alu.data.folder(root)) == 6


def test_what_computers_add_to_folders_is_passed_over(tmp_path: Path) -> None:
    root = animals(tmp_path, 3)
    for name in (".DS_Store", "Thumbs.db", "cat/.DS_Store"):
        (root / name).write_bytes(b"x")
    (root / "__MACOSX" / "cat").mkdir(parents=True)
    (root / "__MACOSX" / "cat" / "._000.png").write_bytes(b"x")
    (root / "cat" / "folder.png").mkdir()
    os.symlink(root, root / "cat" / "round")
    os.symlink(root / "cat" / "me.png", root / "cat" / "me.png")
    os.symlink(root / "nowhere", root / "cat" / "gone.png")
    os.mkfifo(root / "cat" / "pipe.png")
    assert (len(alu.data.folder(root)), alu.data.folder(root).classes) == (6, ("cat", "dog"))


def test_names_in_any_writing_are_classes_that_can_be_printed(tmp_path: Path) -> None:
    root = animals(tmp_path, 3)
    picture(root / "größe 日本" / "ünï.png")
    strange = os.fsencode(root) + b"/z\xff"
    os.mkdir(strange)
    os.rename(picture(root / "k.png"), strange + b"/\xe9.png")
    found = alu.data.folder(root)
    assert (len(found), found.classes) == (8, ("cat", "dog", "größe 日本", "z\N{REPLACEMENT CHARACTER}"))
    "".join(found.classes).encode()


def test_a_format_that_is_not_read_is_named(tmp_path: Path) -> None:
    root = animals(tmp_path, 3)
    (root / "emu").mkdir()
    (root / "emu" / "IMG_1.heic").write_bytes(b"x")
    with pytest.raises(DataError, match=r"emu holds no picture in a format that alu reads, only .* IMG_1.heic\. Add"):
        alu.data.folder(root)


def test_an_empty_file_is_named(tmp_path: Path) -> None:
    root = animals(tmp_path, 3)
    (root / "dog" / "bad.png").write_bytes(b"")
    for read in (lambda: alu.data.folder(root), lambda: alu.data.read_picture(root / "dog" / "bad.png")):
        with pytest.raises(DataError, match=r"bad\.png cannot be read as a picture .the file is empty."):
            read()


def test_a_name_that_no_system_takes_is_one_sentence() -> None:
    name = "x" * 5000
    for read in (alu.data.folder, alu.data.find_pictures, alu.data.read_picture):
        with pytest.raises(StorageError, match="Cannot read x+: File name too long"):
            read(name)
    with pytest.raises(StorageError, match="Cannot read x+: File name too long"):
        alu.data.open_dataset(name, "all")


def test_text_named_png_is_named(tmp_path: Path) -> None:
    root = animals(tmp_path, 3)
    (root / "dog" / "bad.png").write_text("I am text")
    with pytest.raises(DataError, match=r"bad\.png cannot be read as a picture .*no known picture format"):
        alu.data.folder(root)


def test_a_cut_picture_is_named(tmp_path: Path) -> None:
    path = picture(tmp_path / "cut.png", (100, 100))
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(DataError, match=r"cut\.png cannot be read as a picture"):
        alu.data.read_picture(path)


@pytest.mark.parametrize("factor", [1.5, 5.0])  # Pillow warns up to twice its limit and refuses above
def test_a_decompression_bomb_is_not_decoded(factor: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = picture(tmp_path / "bomb.png", (100, 100))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", int(10_000 / factor))
    with pytest.raises(DataError, match=r"bomb\.png has more than .* pixels.* not decoded"):
        alu.data.read_picture(path)


def test_postscript_is_never_handed_to_a_program(tmp_path: Path) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "a.eps")
    (tmp_path / "a.eps").rename(tmp_path / "a.png")
    with pytest.raises(DataError, match="no known picture format"):
        alu.data.read_picture(tmp_path / "a.png")


def test_palette_one_bit_16_bit_and_cmyk_pictures(tmp_path: Path) -> None:
    ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
    Image.fromarray(ramp.astype(np.uint16) * 257).save(tmp_path / "16.png")
    assert torch.equal(alu.data.read_picture(tmp_path / "16.png")[0], torch.from_numpy(ramp))
    Image.fromarray(ramp > 100).save(tmp_path / "1.png")
    assert torch.unique(alu.data.read_picture(tmp_path / "1.png")).tolist() == [0, 255]
    Image.fromarray(np.stack([ramp] * 3, 2)).quantize(256).save(tmp_path / "p.png")
    assert alu.data.read_picture(tmp_path / "p.png").shape == (3, 16, 16)
    Image.new("CMYK", (4, 4)).save(tmp_path / "c.jpg")
    assert torch.equal(alu.data.read_picture(tmp_path / "c.jpg"), torch.full((3, 4, 4), 255).byte())
    Image.fromarray(np.full((4, 4), 2**20, np.int32)).save(tmp_path / "32.tiff")
    with pytest.raises(DataError, match=r"32\.tiff cannot be read .*32 bits for a pixel have no agreed range"):
        alu.data.read_picture(tmp_path / "32.tiff")
    Image.new("F", (4, 4)).save(tmp_path / "f.tiff")
    with pytest.raises(DataError, match=r"f\.tiff cannot be read .*no agreed range"):
        alu.data.read_picture(tmp_path / "f.tiff")


def test_find_pictures_walks_folders_and_keeps_named_files(tmp_path: Path) -> None:
    inside = [picture(tmp_path / "d" / name) for name in ("a/2.JPG", "a/1.png", "b.bmp")]
    (tmp_path / "d" / "notes.txt").write_text("hello")
    (tmp_path / "odd.name").write_text("the user named it, so it is reported, not dropped")
    found = alu.data.find_pictures([tmp_path / "odd.name", tmp_path / "d", inside[0]])
    assert found == [tmp_path / "odd.name", *sorted(inside)]
    with pytest.raises(DataError, match="does not exist"):
        alu.data.find_pictures([tmp_path / "missing"])


def test_an_unreadable_path_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"Cannot read .*: Is a directory"):
        alu.data.read_picture(tmp_path)


def test_pictures_beyond_memory_stay_on_disk_and_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALU_CACHE", str(tmp_path / "cache"))
    root = animals(tmp_path / "animals")
    whole = alu.data.folder(root, "train", size=4)
    monkeypatch.setattr(pictures, "IN_MEMORY", whole.pixels.numel() - 1)
    mapped = alu.data.folder(root, "train", size=4)
    (kept,) = (tmp_path / "cache").iterdir()
    assert kept.stat().st_size == whole.pixels.numel()
    assert torch.equal(mapped.pixels, whole.pixels)
    assert torch.equal(mapped.labels, whole.labels)


def test_a_changed_picture_is_decoded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALU_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(pictures, "IN_MEMORY", 0)
    root = animals(tmp_path / "animals")
    before = alu.data.folder(root).pixels[0].clone()
    picture(root / "cat" / "000.png", seed=7)
    after = alu.data.folder(root).pixels[0]
    assert not torch.equal(before, after)
    assert torch.equal(after, alu.data.read_picture(root / "cat" / "000.png"))


def test_a_damaged_picture_leaves_no_half_decoded_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALU_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(pictures, "IN_MEMORY", 0)
    root = animals(tmp_path / "animals")
    content = (root / "dog" / "003.png").read_bytes()
    (root / "dog" / "003.png").write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match="dog/003.png cannot be read as a picture"):
        alu.data.folder(root)
    assert not (tmp_path / "cache").exists() or not list((tmp_path / "cache").iterdir())
