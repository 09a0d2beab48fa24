"""from_huggingface: the same logits as the library's own pipeline; folders that are refused, one sentence each."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import alu
from alu.errors import AluError, MissingExtraError, StorageError, UntrustedError, UsageError
from alu.models import from_huggingface, weight_hash
from alu.models.adapters import base
from alu.training.recipes import seeded

transformers = pytest.importorskip("transformers", reason="needs transformers: pip install -e '.[huggingface]'")
SIDE = 64
PICTURE = np.random.default_rng(0).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
IMAGE = alu.data.as_images(torch.from_numpy(PICTURE.transpose(2, 0, 1).copy())[None])
NAMES = {0: "zebra", 1: "cat", 2: "Arabian camel"}
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}


@pytest.fixture(autouse=True, scope="module")
def _offline() -> Any:
    """No test waits for a hub; and the library does not speak of a torchvision that is not there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        logger = logging.getLogger("transformers")
        before, logger.disabled = logger.disabled, True
        yield
        logger.disabled = before


def resnet(**more: Any) -> Any:
    names = {"id2label": NAMES, "label2id": {name: label for label, name in NAMES.items()}}
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], **{**names, **more})
    return seeded(lambda: transformers.ResNetForImageClassification(config), 0).eval()


def vit(**more: Any) -> Any:
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=SIDE, num_labels=5,
        **more,
    )  # fmt: skip
    return seeded(lambda: transformers.ViTForImageClassification(config), 0).eval()


def square(kind: str, **more: Any) -> Any:
    return getattr(transformers, kind)(size={"height": SIDE, "width": SIDE}, **more)


PROCESSORS = {
    "ViT": lambda: square("ViTImageProcessor"),
    "ViT, ImageNet": lambda: square("ViTImageProcessor", **IMAGENET),
    "ViT, 0 to 255": lambda: square(
        "ViTImageProcessor", do_rescale=False, image_mean=[127.5] * 3, image_std=[70.0] * 3
    ),
    "ViT, not normalised": lambda: square("ViTImageProcessor", do_normalize=False),
    "ConvNeXT": lambda: transformers.ConvNextImageProcessor(size={"shortest_edge": SIDE}, **IMAGENET),
    "BiT": lambda: transformers.BitImageProcessor(crop_size={"height": SIDE, "width": SIDE}),
    "MobileViT, blue first": lambda: transformers.MobileViTImageProcessor(
        size={"shortest_edge": 80}, crop_size={"height": SIDE, "width": SIDE}
    ),
    # Its constants are not those that image_mean and image_std say: it shifts and scales twice.
    "EfficientNet": lambda: square("EfficientNetImageProcessor"),
}


@pytest.mark.parametrize("name", PROCESSORS)
def test_logits_are_those_of_the_librarys_own_pipeline(name: str) -> None:
    model, processor = resnet(), PROCESSORS[name]()
    adapter = from_huggingface(model, processor)
    sizing = {key: False for key in ("do_resize", "do_center_crop") if getattr(processor, key, False)}
    with torch.no_grad():
        expected = model(**processor(images=PICTURE, return_tensors="pt", **sizing)).logits
        torch.testing.assert_close(adapter(IMAGE), expected, rtol=0, atol=1e-4)
    assert float((expected - expected.mean(1, keepdim=True)).abs().max()) > 0.01, "the network tells something"
    assert (adapter.size, adapter.channels) == ((SIDE, SIDE), 3)
    assert adapter.classes == ("zebra", "cat", "Arabian camel")
    assert adapter.source is None


def test_a_picture_of_its_size_goes_through_the_whole_pipeline() -> None:
    model, processor = vit(), square("ViTImageProcessor")
    adapter = from_huggingface(model, processor)
    with torch.no_grad():
        expected = model(**processor(images=PICTURE, return_tensors="pt")).logits
        torch.testing.assert_close(adapter(IMAGE), expected, rtol=0, atol=1e-4)
    assert adapter.classes == ("0", "1", "2", "3", "4"), "nobody named them"
    images = IMAGE.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(adapter(images).sum(), images)
    assert float(gradient.abs().max()) > 0


def test_gray_pictures_and_a_processor_that_does_not_scale() -> None:
    gray = square("ViTImageProcessor", image_mean=[0.3], image_std=[0.2])
    adapter = from_huggingface(vit(num_channels=1), gray)
    assert (adapter.channels, adapter.size) == (1, (SIDE, SIDE))
    torch.testing.assert_close(adapter.normalize.mean.flatten(), torch.tensor([0.3]))
    free = transformers.ViTImageProcessor(do_resize=False)
    assert from_huggingface(vit(), free).size == (SIDE, SIDE), "from the configuration"
    assert from_huggingface(resnet(), free).size is None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("hf") / "model"
    for part in (resnet(), transformers.ConvNextImageProcessor(size={"shortest_edge": SIDE}, **IMAGENET)):
        part.save_pretrained(place)
    return place


def test_a_folder_is_the_model_that_was_saved_in_it(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    adapter = from_huggingface(folder)
    assert capfd.readouterr() == ("", ""), "no bars and no advice on the screen"
    made = from_huggingface(resnet(), transformers.ConvNextImageProcessor(size={"shortest_edge": SIDE}, **IMAGENET))
    assert torch.equal(adapter(IMAGE), made(IMAGE))
    assert weight_hash(adapter) == weight_hash(made)
    assert adapter.source == f"hf:{folder}"
    again = alu.load(f"hf:{folder}")
    assert torch.equal(again(IMAGE), made(IMAGE))
    assert not again.training


def copied(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def test_folders_that_are_refused(folder: Path, tmp_path: Path) -> None:
    place = copied(folder, tmp_path)
    (place / "preprocessor_config.json").unlink()
    with pytest.raises(StorageError, match="has no preprocessor_config.json, so that its normalisation is not known"):
        from_huggingface(place)
    assert from_huggingface(place, square("ViTImageProcessor")).size == (SIDE, SIDE)
    (place / "model.safetensors").rename(place / "other.txt")
    with pytest.raises(StorageError, match=r"holds no weights: there is no .safetensors file"):
        from_huggingface(place)
    torch.save(resnet().state_dict(), place / "pytorch_model.bin")
    with pytest.raises(UntrustedError, match=r"are a pickle \(pytorch_model.bin\), which can run code"):
        from_huggingface(place)
    (place / "other.txt").rename(place / "model.safetensors")
    (place / "config.json").unlink()
    with pytest.raises(StorageError, match=r"has no config.json. Give a folder that save_pretrained wrote"):
        from_huggingface(place)


def test_code_in_a_folder_is_not_run(folder: Path, tmp_path: Path) -> None:
    place = copied(folder, tmp_path)
    facts = json.loads((place / "config.json").read_text())
    own = {"AutoConfig": "own.Config", "AutoModelForImageClassification": "own.Model"}
    (place / "config.json").write_text(json.dumps({**facts, "model_type": "nobodys", "auto_map": own}))
    (place / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(
        UntrustedError, match=r"needs code that comes with it \(trust_remote_code\), which alu never runs"
    ):
        from_huggingface(place)
    assert not (tmp_path / "ran").exists()


def test_weights_that_would_be_random_are_refused(folder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    place = copied(folder, tmp_path)
    weights = load_file(place / "model.safetensors")
    save_file({key: value for key, value in weights.items() if "classifier" not in key}, place / "model.safetensors")
    with pytest.raises(StorageError, match=r"has no weights for classifier.1.bias, which would be random numbers"):
        from_huggingface(place)
    (place / "model.safetensors").write_bytes(b"not tensors")
    with pytest.raises(StorageError, match=r"cannot be read as an image classifier"):
        from_huggingface(place)
    (place / "config.json").write_text("[1]")
    with pytest.raises(StorageError, match="is not a configuration of transformers"):
        from_huggingface(place)


@pytest.mark.parametrize("name", ["nobody/nothing", "nothing"])
def test_a_name_that_is_nowhere(name: str) -> None:
    with pytest.raises(StorageError, match=f"there is no folder {name}, and no model of that name here, and the hub"):
        alu.load(f"hf:{name}")


@pytest.mark.parametrize("name", ["./gone", "/gone/model", __file__])
def test_a_path_is_no_name(name: str) -> None:
    with pytest.raises(StorageError, match=f"{name} is not a folder. Give the path of a folder"):
        from_huggingface(name)


@pytest.mark.parametrize(
    ("model", "processor", "sentence"),
    [
        (7, None, "needs a model of transformers, or its folder; it was given int"),
        (torch.nn.Flatten(), None, "needs a model of transformers, or its folder; it was given Flatten"),
        (
            "resnet",
            None,
            "needs the image processor of the model, which holds its normalisation; it was given NoneType",
        ),
        ("resnet", "resnet", "ResNetForImageClassification is no image processor"),
        ("resnet", lambda **_: {"pixel_values": torch.zeros(1, 2, 3)}, "function does more to pictures than scale"),
        ("body", "processor", "ResNetModel must return logits as a tensor; it returned BaseModelOutput"),
        ("squared", "processor", "does more to pictures than scale, cut and normalise them"),
        ("vit", "large", r"failed on an image \[1, 3, 96, 96\] .* It must be an image classifier"),
    ],
)
def test_what_is_no_model_and_no_processor(model: Any, processor: Any, sentence: str) -> None:
    made = {
        "resnet": resnet, "vit": vit, "squared": resnet,
        "body": lambda: transformers.ResNetModel(transformers.ResNetConfig(depths=[1], hidden_sizes=[8])),
        "processor": lambda: square("ViTImageProcessor"),
        "large": lambda: transformers.ViTImageProcessor(size={"height": 96, "width": 96}),
    }  # fmt: skip
    network, reader = (made[part]() if isinstance(part, str) else part for part in (model, processor))
    if model == "squared":
        plain = reader
        reader = lambda **more: {"pixel_values": plain(**more)["pixel_values"].square()}  # noqa: E731
    with pytest.raises(AluError, match=sentence):
        from_huggingface(network, reader)


def test_a_missing_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(base, "import_module", missing)
    for make, extra in (
        (from_huggingface, "huggingface"),
        (alu.models.from_timm, "timm"),
        (alu.models.from_onnx, "onnx"),
    ):
        with pytest.raises(MissingExtraError, match=rf"pip install -e '.\[{extra}\]'"):
            make("somewhere")


def test_a_package_that_does_not_start_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise RuntimeError("operator torchvision::nms\ndoes not exist")

    monkeypatch.setattr(base, "import_module", broken)
    with pytest.raises(
        UsageError, match=r"installed but does not start \(RuntimeError: operator torchvision::nms does"
    ):
        alu.models.from_timm("resnet18")
