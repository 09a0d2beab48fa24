"""Classifiers of other libraries by name, and what all adapters have in common."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import alu
from alu.errors import StorageError, UsageError
from alu.evaluation.subject import described
from alu.loading import load_classifier
from alu.models import Adapter, Normalize
from alu.models.adapters import is_named, local_path, moved


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("hf:folder", True), ("timm:resnet18", True), ("onnx:a.onnx", True), ("sklearn:a.joblib", True),
        ("my_module:build", False), ("cifar10-standard", False), ("hf", False), ("package.hf:build", False),
    ],
)  # fmt: skip
def test_which_names_have_a_prefix(name: str, named: bool) -> None:
    assert is_named(name) == named


@pytest.mark.parametrize(
    ("name", "place", "elsewhere"),
    [
        ("hf:/models/vit", Path("/models/vit"), "hf:/new"),
        ("hf:google/vit-base-patch16-224", None, "hf:/new"),
        ("timm:/models/resnet", Path("/models/resnet"), "timm:/new"),
        ("timm:resnet18", None, "timm:/new"),
        ("onnx:/models/a.onnx", Path("/models/a.onnx"), "onnx:/new"),
        ("onnx:/models/a@1.onnx@imagenet+bgr", Path("/models/a@1.onnx"), "onnx:/new@imagenet+bgr"),
    ],
)
def test_where_a_name_leads(name: str, place: Path | None, elsewhere: str) -> None:
    assert local_path(name) == place
    assert moved(name, Path("/new")) == elsewhere


@pytest.mark.parametrize("name", ["sklearn:forest.joblib", "joblib:forest.joblib", "pickle:forest.pkl"])
def test_pickles_are_never_read(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name.partition(":")[2]).write_bytes(b"cos\nsystem\n(S'touch ran'\ntR.")
    for load in (alu.load, load_classifier):
        with pytest.raises(UsageError, match=r"saved as a pickle, which runs code when it is read, and alu reads none"):
            load(name)
    assert not Path("ran").exists()


@pytest.mark.parametrize("name", ["hf:", "timm:", "onnx:"])
def test_a_prefix_alone_names_nothing(name: str) -> None:
    with pytest.raises(UsageError, match=r"names nothing. Write hf:FOLDER, timm:NAME, onnx:FILE"):
        alu.load(name)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(StorageError, match=r"Cannot read gone.onnx: No such file"):
        alu.load("onnx:gone.onnx@imagenet")


def test_an_adapter_is_an_ordinary_module() -> None:
    network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5))
    adapter = Adapter(network, Normalize([0.5] * 3, [0.1] * 3), size=(8, 8), classes=("a", "b", "c"))
    images = torch.rand((4, 3, 8, 8), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(adapter(images), 10 * (images.mean((2, 3)) - 0.5))
    assert not network[2].training, "in eval mode"
    assert (adapter.classes, adapter.channels, adapter.source) == (("a", "b", "c"), 3, None)
    defense = alu.Defense(adapter, alu.purifiers.Blur(0.5), rule="purified")
    assert described(defense).startswith("Sequential + Blur")
