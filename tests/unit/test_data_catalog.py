"""One door to all data sets, and `alu data` on top of it."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from PIL import Image
from typer.testing import CliRunner

import alu.data
from alu.cli.data import data
from alu.cli.options import parse_size
from alu.data.cifar import CLASSES100
from alu.errors import AluError, DataError, UsageError

REPO = Path(__file__).parents[2]
runner = CliRunner()


@pytest.fixture
def shared_data() -> Path:
    folder = REPO.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"the subsets of CIFAR-100 and Tiny ImageNet are not in {folder}")
    return folder


@pytest.fixture
def arrays(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 3, 6, 8), dtype=np.uint8)
    np.savez(tmp_path / "own.npz", images=pixels, labels=np.arange(40) % 2)
    for i, picture in enumerate(pixels):
        path = tmp_path / "own" / "ab"[i % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture.transpose(1, 2, 0).copy()).save(path)
    return tmp_path


def run(*arguments: str) -> str:
    app = typer.Typer()
    app.command("data")(data)
    app.command("other")(lambda: None)  # with one command alone, typer drops its name
    result = runner.invoke(app, ["data", *arguments], env={"COLUMNS": "200"})
    if isinstance(result.exception, AluError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_names_folders_and_npz_files_are_opened(arrays: Path) -> None:
    assert alu.data.open_dataset("cifar10-sample", "test", n=7).name == "cifar10-sample"
    assert len(alu.data.open_dataset("cifar10_sample", "calibration")) == 1500
    assert alu.data.open_dataset(str(arrays / "own"), "all", size=4).shape == (3, 4, 4)
    assert alu.data.open_dataset(arrays / "own.npz", "all").shape == (3, 6, 8)


@pytest.mark.parametrize(
    ("spec", "options", "error", "match"),
    [
        ("cifar-10", {}, UsageError, "There is no data set 'cifar-10'.*Did you mean cifar10"),
        ("tiny-image-net", {}, UsageError, "Did you mean tiny-imagenet"),
        ("", {}, UsageError, "data set's name is empty. Give a folder"),
        ("some/where", {}, DataError, "some/where does not exist"),
        ("missing.npz", {}, DataError, "missing.npz does not exist"),
        ("cifar10-sample", {"size": 3}, UsageError, "a size is only for folders"),
        ("{own}.npz", {"size": 3}, UsageError, "a size is only for folders"),
        ("{own}", {"root": "x"}, UsageError, "is a path already; a root is only for names"),
        ("{own}/a/0.png", {}, UsageError, "neither a folder of pictures nor an .npz file"),
    ],
)
def test_what_cannot_be_opened_is_one_sentence(
    spec: str, options: dict[str, object], error: type[Exception], match: str, arrays: Path
) -> None:
    with pytest.raises(error, match=match):
        alu.data.open_dataset(spec.format(own=arrays / "own"), "all", **options)  # type: ignore[arg-type]


def test_cifar100_subset_as_a_user_reads_it(shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALU_CACHE", str(tmp_path))
    sizes = {s: len(alu.data.cifar100(s, root=shared_data)) for s in ("train", "calibration", "validation", "test")}
    assert sizes == {"train": 18000, "calibration": 1000, "validation": 1000, "test": 10000}
    test = alu.data.cifar100("test")
    assert test.labels.bincount().tolist() == [100] * 100
    assert [test.classes[label] for label in test.labels[:3]] == ["tiger", "sunflower", "orange"]
    assert test.classes == CLASSES100


@pytest.mark.slow
def test_tiny_imagenet_subset_as_a_user_reads_it(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALU_CACHE", str(tmp_path))
    names = ("train", "calibration", "validation", "test")
    parts = {s: alu.data.tiny_imagenet(s, root=shared_data) for s in names}
    assert [len(part) for part in parts.values()] == [18000, 1000, 1000, 10000]
    assert parts["test"].labels.bincount().tolist() == [50] * 200
    assert parts["train"].labels.bincount().tolist() == [90] * 200
    assert parts["test"].classes[0] == "goldfish"


def test_the_list_says_what_is_known() -> None:
    text = run()
    for name in ("cifar10", "cifar10-sample", "cifar100", "tiny-imagenet", "fashion-mnist", "Cache:"):
        assert name in text


def test_one_data_set_is_described() -> None:
    text = run("cifar10-sample")
    for fact in ("1,500", "500", "3 x 32 x 32", "airplane", "0.482 0.477 0.445", "0.244 0.239 0.259", "Source:"):
        assert fact in text


def test_a_folder_is_described_and_shown(arrays: Path) -> None:
    text = run(str(arrays / "own"), "--size", "5x4", "--show", str(arrays / "sheet.png"))
    for fact in ("3 x 5 x 4", "train", "28", "all", "40"):
        assert fact in text
    with Image.open(arrays / "sheet.png") as sheet:
        assert sheet.size == (130 + 8 * (4 * 12 + 2), 2 + 2 * (5 * 12 + 2))
        first = sheet.getpixel((130, 2))
    pixels = alu.data.folder(arrays / "own", size=(5, 4)).pixels
    assert torch.equal(torch.tensor(first), pixels[0, :, 0, 0])


def test_square_brackets_in_names_are_shown_as_they_are(arrays: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(arrays)
    Path("[").mkdir()
    Path("own").rename("[/b]")  # which rich would read as the end of bold text
    assert "[/b]" in run("[/b]", "--split", "all").splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (("cifar10-sample", "--split", "tset"), "There is no split 'tset'"),
        (("cifar10-sample", "--show", "sheet.jpg"), "ends in .png"),
        (("--split", "test"), "needs the NAME"),
        (("nothing-here",), "There is no data set"),
    ],
)
def test_wrong_usage_is_one_sentence(arguments: tuple[str, ...], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        run(*arguments)


def test_sizes_are_parsed() -> None:
    assert [parse_size(None), parse_size("32"), parse_size("32x48")] == [None, 32, (32, 48)]
    for wrong in ("big", "3x", "1x2x3", "-3"):
        with pytest.raises(UsageError, match="--size"):
            parse_size(wrong)


def test_the_command_is_imported_without_torch() -> None:
    heavy = "[m for m in ('torch', 'numpy', 'PIL') if m in sys.modules]"
    code = f"import alu.cli.data, sys, json; print(json.dumps({heavy}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
