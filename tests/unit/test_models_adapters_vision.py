"""from_timm and from_torchvision: on the libraries themselves where they start, and on objects of their form."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import alu
from alu.errors import AluError
from alu.models import from_timm, from_torchvision

# The operators without which torchvision does not start beside a torch of another kind; no classifier uses them.
STAND_IN = """
import sys, warnings
import torch
operators = torch.library.Library("torchvision", "DEF")
for name in ("nms", "qnms"):
    try:
        operators.define(name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    except RuntimeError:
        pass
warnings.simplefilter("ignore")
try:
    import {package}
except Exception as error:
    print("does not start:", " ".join(str(error).split()))
    sys.exit(0)
import alu
picture = torch.randint(0, 256, (3, 64, 64), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
image = picture[None] / 255
torch.manual_seed(0)
"""
TIMM = """
from torchvision.transforms.functional import to_pil_image
network = timm.create_model("resnet10t", pretrained=False, num_classes=5).eval()
adapter = alu.models.from_timm(network)
settings = timm.data.resolve_model_data_config(network)
settings.update(input_size=(3, 64, 64), crop_pct=1.0)
own = timm.data.create_transform(**settings, is_training=False)
with torch.no_grad():
    expected = network(own(to_pil_image(picture))[None])
    assert float((adapter(image) - expected).abs().max()) < 1e-4
    assert float(expected.std()) > 1e-3
assert (adapter.size, len(adapter.classes), adapter.source) == ((176, 176), 5, None)
timm.models.save_for_hf(network, "saved", safe_serialization=True)
again = alu.load("timm:saved")
assert torch.equal(again(image), adapter(image))
assert again.source.startswith("timm:/")
for name, words in {"nothing_at_all": "has no pretrained model", "/gone": "is not a folder"}.items():
    try:
        alu.load("timm:" + name)
    except alu.AluError as error:
        assert words in str(error), error
print("equal")
"""
TORCHVISION = """
from torchvision.models import ResNet18_Weights, resnet18, segmentation
weights = ResNet18_Weights.IMAGENET1K_V1
network = resnet18(weights=None).eval()
adapter = alu.models.from_torchvision(network, weights)
own = weights.transforms(crop_size=64, resize_size=64)
with torch.no_grad():
    expected = network(own(picture)[None])
    assert float((adapter(image) - expected).abs().max()) < 1e-4
    assert float(expected.std()) > 1e-3
assert (adapter.size, adapter.classes[:2], len(adapter.classes)) == ((224, 224), ("tench", "goldfish"), 1000)
try:
    alu.models.from_torchvision(network, segmentation.FCN_ResNet50_Weights.DEFAULT)
except alu.AluError as error:
    assert "are not the weights of an image classifier" in str(error)
    print("equal")
"""


@pytest.mark.parametrize(("package", "code"), [("timm", TIMM), ("torchvision", TORCHVISION)])
def test_logits_are_those_of_the_librarys_own_pipeline(package: str, code: str, tmp_path: Path) -> None:
    words = [sys.executable, "-c", STAND_IN.format(package=package) + code]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    if done.stdout.startswith("does not start"):
        pytest.skip(f"needs {package}, which {done.stdout.strip()}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "equal"


class Network(nn.Module):
    """A head over the mean of each channel, as large libraries' networks end."""

    num_classes = 2

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 2)

    def forward(self, values: Any) -> Any:
        return self.head(values.mean((2, 3)))


def timm_like(**facts: Any) -> Any:
    network = Network()
    network.pretrained_cfg = {  # type: ignore[assignment]
        "mean": (0.1, 0.2, 0.3), "std": (0.5, 0.6, 0.7), "input_size": (3, 16, 24), "label_names": ["b", "a"], **facts,
    }  # fmt: skip
    return network


def weights_like(**more: Any) -> Any:
    preset = SimpleNamespace(mean=[0.1, 0.2, 0.3], std=[0.5, 0.6, 0.7], crop_size=[16], **more)
    return SimpleNamespace(transforms=lambda: preset, meta={"categories": ["b", "a"]})


@pytest.mark.parametrize("library", ["timm", "torchvision"])
def test_constants_size_and_names_are_taken_over(library: str) -> None:
    network = timm_like()
    adapter = from_timm(network) if library == "timm" else from_torchvision(network, weights_like())
    images = torch.rand((2, 3, 16, 24), generator=torch.Generator().manual_seed(0))
    layer = alu.models.Normalize([0.1, 0.2, 0.3], [0.5, 0.6, 0.7])
    assert torch.equal(adapter(images), network(layer(images)))
    assert adapter.size == ((16, 24) if library == "timm" else (16, 16))
    assert adapter.classes == ("b", "a")


def test_a_head_that_was_replaced_has_no_names() -> None:
    assert from_timm(timm_like(label_names=["a", "b", "c"])).classes == ("0", "1")
    assert from_timm(timm_like(label_names=None)).classes == ("0", "1")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: from_timm(7),
            "from_timm needs a model of timm with its pretrained_cfg, or its name; it was given int",
        ),
        (
            lambda: from_timm(Network()),
            "needs a model of timm with its pretrained_cfg, or its name; it was given Network",
        ),
        (lambda: from_timm(timm_like(mean=None)), "the pretrained_cfg of Network has no mean and std"),
        (
            lambda: from_timm(timm_like(std="none")),
            "needs mean and std as numbers, one for each channel; 'none' is none",
        ),
        (lambda: from_timm(timm_like(mean=(0.1, 0.2))), "a standard deviation above 0 for each channel"),
        (lambda: from_torchvision(7, weights_like()), "needs a model of torchvision; it was given int"),
        (lambda: from_torchvision(Network(), "DEFAULT"), "such as ResNet18_Weights.DEFAULT; it was given str"),
        (
            lambda: from_torchvision(Network(), SimpleNamespace(transforms=lambda: 7, meta={"categories": []})),
            "are not the weights of an image classifier",
        ),
        (
            lambda: from_torchvision(nn.Sequential(nn.Flatten(), nn.LazyLinear(3)), weights_like()),
            "answers with 3 classes, but 2 are named: b, a",
        ),
        (lambda: from_timm(timm_like(input_size=(1, 8, 8), mean=[0.1], std=[1])), r"failed on an image \[1, 1, 8, 8\]"),
    ],
)
def test_what_is_no_model_and_what_are_no_weights(make: Any, sentence: str) -> None:
    with pytest.raises(AluError, match=sentence):
        make()
