"""from_onnx: the same logits as onnxruntime's, whatever shape, type and batch the file wants; and what is refused."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import alu
from alu.attacks import PGD, HopSkipJump, Square
from alu.detectors import LogitPeak, Neighbourhood
from alu.errors import AluError, InputError, NoGradientError, StorageError, UsageError
from alu.models import Adapter, from_onnx, weight_hash
from alu.models.normalize import IMAGENET
from alu.purifiers import JPEG
from tests import onnx_files
from tests.onnx_files import constants, onnx, runtime

SAMPLE = alu.data.sample("test").draw(20)
IMAGES = SAMPLE.images[:5, :, :8, :8].contiguous()
MEAN = "y = ReduceMean<axes=[2, 3], keepdims=0>(x)"
CAST = f"z = Cast<to=1>(x) {MEAN.replace('(x)', '(z)')}"


def written(
    path: Path, shape: str, body: str = MEAN, kind: str = "float", out: str = "float[n, 3] y", more: str = "x"
) -> Path:
    """An ONNX file from the text of its graph; `more` is the name of the last input."""
    return onnx_files.from_text(path, f"g ({kind}[{shape}] {more}) => ({out}) {{ {body} }}")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return onnx_files.exported(tmp_path_factory.mktemp("onnx") / "network.onnx")


def test_logits_are_those_of_the_runtime_and_of_the_network(exported: Path) -> None:
    adapter = from_onnx(exported, **constants())
    session = runtime.InferenceSession(exported, providers=["CPUExecutionProvider"])
    pixels = (SAMPLE.images.numpy() - np.array(constants()["mean"], np.float32).reshape(3, 1, 1)) / np.array(
        constants()["std"], np.float32
    ).reshape(3, 1, 1)
    expected = torch.from_numpy(session.run(None, {"pixels": pixels})[0])
    torch.testing.assert_close(adapter(SAMPLE.images), expected, rtol=0, atol=1e-4)
    with torch.no_grad():
        network = alu.models.load("cifar10-standard")(SAMPLE.images)
    torch.testing.assert_close(adapter(SAMPLE.images), network, rtol=0, atol=1e-3)
    assert (adapter.size, adapter.channels, len(adapter.classes)) == ((32, 32), 3, 10)


@pytest.mark.parametrize(
    ("shape", "body", "kind", "settings", "expected"),
    [
        ("n, 3, 8, 8", MEAN, "float", {}, lambda x: x),
        ("1, 3, 8, 8", MEAN, "float", {}, lambda x: x),
        ("2, 3, 8, 8", MEAN, "float", {"mean": 0.5, "std": [0.1, 0.2, 0.3]}, None),
        ("4, 3, h, w", MEAN, "float", {"std": 0.1}, lambda x: 10 * x),
        ("n, 8, 8, 3", MEAN.replace("2, 3", "1, 2"), "float", {}, lambda x: x),
        ("n, a, b, c", MEAN.replace("2, 3", "1, 2"), "float", {"layout": "NHWC"}, lambda x: x),
        ("n, 3, 8, 8", CAST, "float16", {}, lambda x: x.half().float()),
        ("n, 3, 8, 8", CAST, "double", {"bgr": True}, lambda x: x.flip(1)),
        ("n, 3, 8, 8", CAST, "uint8", {}, lambda x: 255 * x),
        ("n, 3, 8, 8", MEAN.replace("keepdims=0", "keepdims=1"), "float", {}, lambda x: x),
    ],
)
def test_files_get_what_they_want(
    shape: str, body: str, kind: str, settings: dict[str, Any], expected: Any, tmp_path: Path
) -> None:
    kept = "keepdims=1" in body
    path = written(tmp_path / "m.onnx", shape, body, kind, "float[n, 3, 1, 1] y" if kept else "float[n, 3] y")
    adapter = from_onnx(path, **settings)
    wanted = adapter.normalize(IMAGES) if expected is None else expected(IMAGES)
    torch.testing.assert_close(adapter(IMAGES), wanted.mean((2, 3)), rtol=0, atol=1e-4)
    alone = adapter(IMAGES[3:4])
    torch.testing.assert_close(alone, adapter(IMAGES)[3:4], msg="an answer does not depend on the batch")
    assert adapter.classes == ("0", "1", "2")
    again = alu.load(str(adapter.source))
    assert torch.equal(again(IMAGES), adapter(IMAGES))
    assert weight_hash(again) == weight_hash(adapter)


def test_a_softmax_is_taken_back_but_for_a_constant(tmp_path: Path) -> None:
    body = f"{MEAN.replace('y =', 'z =')} y = Softmax<axis=1>(z)"
    path = written(tmp_path / "m.onnx", "n, 3, 8, 8", body)
    adapter = from_onnx(path, probabilities=True, std=0.1)
    expected = (10 * IMAGES).mean((2, 3)).log_softmax(1)
    torch.testing.assert_close(adapter(IMAGES), expected, rtol=0, atol=1e-4)
    assert adapter.log_probabilities
    with pytest.raises(InputError, match=r"These are not probabilities.*leave out probabilities=True"):
        from_onnx(written(tmp_path / "logits.onnx", "n, 3, 8, 8"), probabilities=True, std=0.1)


def test_one_of_several_outputs(tmp_path: Path) -> None:
    body, both = f"{MEAN} features = Flatten(x)", "float[n, 3] y, float[n, 192] features"
    path = written(tmp_path / "two.onnx", "n, 3, 8, 8", body, out=both)
    with pytest.raises(UsageError, match=r"has several outputs \(y, features\). Say which one: output='y'"):
        from_onnx(path)
    assert torch.equal(from_onnx(path, output="y")(IMAGES), alu.load(f"onnx:{path}@output=y")(IMAGES))
    with pytest.raises(UsageError, match="There is no output of .*two.onnx 'z'"):
        from_onnx(path, output="z")
    named = written(
        tmp_path / "named.onnx", "n, 3, 8, 8", body.replace("y =", "logits ="), out=both.replace("y", "logits")
    )
    assert from_onnx(named)(IMAGES).shape == (5, 3)


def test_names_carry_the_settings(tmp_path: Path) -> None:
    path = written(tmp_path / "odd@name.onnx", "n, 3, 8, 8")
    plain = alu.load(f"onnx:{path}")
    assert torch.equal(plain(IMAGES), from_onnx(path)(IMAGES))
    assert torch.equal(
        alu.load(f"onnx:{path}@imagenet")(IMAGES), from_onnx(path, mean=IMAGENET[0], std=IMAGENET[1])(IMAGES)
    )
    flipped = alu.load(f"onnx:{path}@0.5,0.4,0.3/0.2,0.2,0.1+bgr")
    assert torch.equal(flipped(IMAGES), from_onnx(path, mean=[0.5, 0.4, 0.3], std=[0.2, 0.2, 0.1], bgr=True)(IMAGES))
    assert weight_hash(flipped) != weight_hash(alu.load(f"onnx:{path}@0.5,0.4,0.3/0.2,0.2,0.1"))
    with pytest.raises(UsageError, match=r"'imagnet' is no setting of an ONNX classifier. Behind @ stand"):
        alu.load(f"onnx:{path}@imagnet")


def test_it_can_be_copied(tmp_path: Path) -> None:
    adapter = from_onnx(written(tmp_path / "m.onnx", "n, 3, 8, 8"), mean=0.2)
    for other in (copy.copy(adapter), copy.deepcopy(adapter), pickle.loads(pickle.dumps(adapter))):
        assert torch.equal(other(IMAGES), adapter(IMAGES))


def test_weights_beside_the_file_belong_to_it(tmp_path: Path) -> None:
    weight = onnx.numpy_helper.from_array(np.random.default_rng(0).normal(size=(192, 3)).astype(np.float32), "w")
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node("Flatten", ["x"], ["f"]), helper.make_node("MatMul", ["f", "w"], ["y"])], "g",
        [helper.make_tensor_value_info("x", 1, ["n", 3, 8, 8])], [helper.make_tensor_value_info("y", 1, ["n", 3])],
        [weight],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "m.onnx"
    onnx.save(model, path, save_as_external_data=True, location="m.weights", size_threshold=0)
    first = from_onnx(path)
    data = bytearray((tmp_path / "m.weights").read_bytes())
    data[3] ^= 1
    (tmp_path / "m.weights").write_bytes(data)
    assert weight_hash(from_onnx(path)) != weight_hash(first)
    (tmp_path / "m.weights").unlink()
    with pytest.raises(StorageError, match="cannot be run as an ONNX model"):
        from_onnx(path)


def test_the_defence_works_around_it_and_only_questions_attack_it(exported: Path) -> None:
    adapter = from_onnx(exported, **constants())
    with pytest.raises(NoGradientError, match="PGD needs gradients, but the model gives none"):
        PGD(steps=1)(adapter, SAMPLE.images, SAMPLE.labels)
    found = Square(queries=60)(adapter, SAMPLE.images, SAMPLE.labels)
    before, after = (int((adapter(images).argmax(1) == SAMPLE.labels).sum()) for images in (SAMPLE.images, found))
    assert after < before
    assert HopSkipJump(steps=1, queries=5)(adapter, SAMPLE.images[:2], SAMPLE.labels[:2]).shape == (2, 3, 32, 32)
    defense = alu.Defense(adapter, JPEG(75), LogitPeak(0.05), "alu").calibrate(
        alu.data.sample("calibration").images[:60]
    )
    inside = alu.Defense(alu.models.load("cifar10-standard"), JPEG(75), LogitPeak(0.05), "alu")
    inside.calibrate(alu.data.sample("calibration").images[:60])
    for images in (SAMPLE.images, found):
        here, there = (made.decide(images) for made in (defense, inside))
        assert torch.equal(here.label, there.label)
        torch.testing.assert_close(here.score, there.score, rtol=0, atol=1e-3)
    with pytest.raises(NoGradientError, match="Neighbourhood searches along the classifier's gradient, and this"):
        alu.Defense(adapter, detector=Neighbourhood(), rule="abstain").decide(SAMPLE.images[:2])


def test_wrong_constants_are_noticed_on_a_handful(exported: Path) -> None:
    few = SAMPLE.images, SAMPLE.labels
    found = alu.models.check_normalisation(from_onnx(exported), *few)
    assert found.better is None, "too few images to tell"
    found = alu.models.check_normalisation(from_onnx(exported, std=1 / 255), *few)
    assert found.better is not None
    assert f"or the name onnx:{exported.name}@" in str(found)
    assert alu.models.check_normalisation(from_onnx(exported, **constants()), *few).better is None


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"shape": "n, 192", "body": "y = Identity(x)", "out": "float[n, 192] y"},
            r"takes an input of shape \['n', 192\]",
        ),
        ({"shape": "n, 7, 8, 9"}, r"which as NCHW has 7 channels; images have 1, 3 or 4. Give layout"),
        ({"kind": "int64", "body": CAST}, r"takes tensor\(int64\); alu gives floating-point or 8-bit images"),
        ({"kind": "uint8", "body": CAST, "mean": 0.5}, "takes 8-bit images, which are not normalised"),
        ({"body": "y = Identity(x)", "out": "float[n, 3, 8, 8] y"}, r"must return logits \[N, classes\]"),
        ({"shape": "n, 3, 8, 8] x, float[n", "more": "q"}, r"takes 2 inputs \(x, q\); a classifier takes one"),
        ({"mean": [0.5, 0.5]}, "the images have 3 channels, and mean has 2 numbers"),
        ({"std": 0.0}, "a standard deviation above 0 for each channel"),
        ({"classes": ["a", "b"]}, "answers with 3 classes, but 2 are named: a, b. Name as many"),
        ({"layout": "CHWN"}, "There is no layout 'CHWN'"),
    ],
)
def test_files_that_are_no_classifier_of_images(settings: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    graph = {key: value for key, value in settings.items() if key in ("shape", "body", "kind", "out", "more")}
    path = written(tmp_path / "m.onnx", **{"shape": "n, 3, 8, 8", **graph})
    with pytest.raises(AluError, match=sentence):
        from_onnx(path, **{key: value for key, value in settings.items() if key not in graph})


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"Cannot read .*gone.onnx: No such file"):
        from_onnx(tmp_path / "gone.onnx")
    (tmp_path / "text.onnx").write_text("not a graph")
    with pytest.raises(StorageError, match=r"cannot be run as an ONNX model \(.*Protobuf parsing failed"):
        from_onnx(tmp_path / "text.onnx")


def test_it_answers_where_the_images_are_and_leaves_them_alone(tmp_path: Path) -> None:
    adapter: Adapter = from_onnx(written(tmp_path / "m.onnx", "n, 3, 8, 8"))
    images = IMAGES.clone().requires_grad_(True)
    logits: Tensor = adapter(images)
    assert not logits.requires_grad
    assert logits.dtype == torch.float32
    assert torch.equal(images, IMAGES)
    assert adapter(IMAGES.double()).dtype == torch.float32
