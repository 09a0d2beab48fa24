"""Classifiers of other libraries on the command line: the example with 224-pixel pictures, ONNX, and wrong names."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from alu import data
from tests.conftest import ROOT
from tests.end_to_end.command import ENVIRONMENT, Done, alu, fresh, snapshot
from tests.end_to_end.own_classifier import write_pictures
from tests.onnx_files import exported, from_text

EXAMPLE = ROOT / "examples" / "huggingface" / "prepare.py"
OFFLINE = {"HF_HUB_OFFLINE": "1"}
GRAPH = "g (float[n, 3, h, w] x) => (float[n, 2] logits)"
# Tells the direction of stripes as the classifier of own_classifier.py does: by how much neighbours differ.
BODY = """{
  ends = Constant<value = int64[1] {9223372036854775807}>()
  one = Constant<value = int64[1] {1}>()
  last = Constant<value = int64[1] {-1}>()
  zero = Constant<value = int64[1] {0}>()
  rows = Constant<value = int64[1] {2}>()
  columns = Constant<value = int64[1] {3}>()
  gray = ReduceMean<axes=[1], keepdims=1>(x)
  right = Slice(gray, one, ends, columns)
  left = Slice(gray, zero, last, columns)
  lower = Slice(gray, one, ends, rows)
  upper = Slice(gray, zero, last, rows)
  aside = Sub(right, left)
  under = Sub(lower, upper)
  awide = Abs(aside)
  atall = Abs(under)
  wide = ReduceMean<axes=[2, 3], keepdims=0>(awide)
  tall = ReduceMean<axes=[2, 3], keepdims=0>(atall)
  both = Concat<axis=1>(tall, wide)
  forty = Constant<value = float {40.0}>()
  logits = Mul(both, forty)
}"""


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the example makes, with few pictures and hardly trained."""
    pytest.importorskip("transformers", reason="needs transformers: pip install -e '.[huggingface]'")
    place = tmp_path_factory.mktemp("shapes")
    words = [sys.executable, str(EXAMPLE), "--n", "100", "--epochs", "1", "--out", str(place)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("100 pictures in ")
    assert "On the test part it is right on" in done.stdout
    return place


@pytest.fixture(scope="module")
def stripes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ONNX file that tells stripes, and pictures of them."""
    place = tmp_path_factory.mktemp("stripes")
    from_text(place / "own.onnx", f"{GRAPH} {BODY}")
    write_pictures(place / "pics")
    return place


def quiet(done: Done) -> str:
    """Standard error without warnings and without how long it still takes."""
    return "".join(line for line in done.unwarned.splitlines(True) if not line.endswith(" s left\n"))


@pytest.mark.parametrize(
    ("purifier", "more"),
    [("blur", ()), ("pca", ()), ("vae", ("--epochs", 1, "--steps", 1))],
    ids=["filter", "pca", "vae"],
)
def test_224_pixels_from_pictures_to_answers(
    purifier: str, more: tuple[object, ...], shapes: Path, tmp_path: Path
) -> None:
    words = ("--classifier", "hf:model", "--data", "pictures", "--false-alarm", 0.1, "--purifier", purifier)
    done = alu(shapes, "fit", *words, *more, "--rule", "alu", "--force", "--out", tmp_path / "defense", **OFFLINE)
    assert (done.code, quiet(done)) == (0, ""), done
    facts = json.loads((tmp_path / "defense" / "defense.json").read_text())
    assert facts["shape"] == [3, 224, 224]
    assert facts["classes"] == ["star", "circle", "square", "triangle"], "in the order of the network"
    assert facts["classifier"]["name"] == f"hf:{shapes / 'model'}"
    if purifier == "vae":
        assert facts["purifier"]["vae"]["stride"] == 8
    assert f"alu predict {tmp_path / 'defense'} PICTURES\n" in done.out, "nothing has to be trusted"
    answers = alu(
        tmp_path, "predict", "defense", shapes / "pictures" / "star" / "00000.png", "--format", "jsonl", **OFFLINE
    )
    assert (answers.code, answers.unwarned.count("alu:")) == (0, 1), answers
    assert json.loads(answers.out)["class"] in facts["classes"]


def test_a_fresh_process_reads_pictures_as_the_classifier_wants_them(shapes: Path) -> None:
    words = ("--data", "pictures", "--n", 6, "--attack", "fgsm", "--out", "found.npz")
    done = fresh(shapes, "attack", "hf:model", *words)
    assert (done.code, done.err) == (0, ""), done
    with np.load(shapes / "found.npz") as found:
        assert found["images"].shape == (6, 3, 224, 224)
        assert list(found["classes"]) == ["star", "circle", "square", "triangle"]
    (shapes / "found.npz").unlink()


def test_an_onnx_file_from_pictures_to_answers(stripes: Path, tmp_path: Path) -> None:
    words = ("--classifier", "onnx:own.onnx", "--data", "pics", "--false-alarm", 0.05, "--purifier", "blur")
    done = fresh(stripes, "fit", *words, "--out", tmp_path / "defense")
    assert (done.code, done.unwarned) == (0, ""), done
    assert "The classifier was not attacked: it has no gradient." in done.out
    assert "│ clean " in done.out
    answers = fresh(tmp_path, "predict", "defense", stripes / "pics", "--format", "jsonl")
    assert answers.code == 0, answers
    rows = [json.loads(line) for line in answers.out.splitlines()]
    assert sum(row["class"] == Path(row["file"]).parent.name for row in rows) >= 130
    moved = tmp_path / "elsewhere.onnx"
    moved.write_bytes((stripes / "own.onnx").read_bytes())
    again = alu(tmp_path, "predict", "defense", stripes / "pics", "--classifier", f"onnx:{moved}", "--format", "jsonl")
    assert again.out == answers.out


def test_only_questions_attack_an_onnx_file(stripes: Path, tmp_path: Path) -> None:
    common = ("--data", "pics", "--n", 6, "--out", tmp_path / "found.npz")
    done = alu(stripes, "attack", "onnx:own.onnx", *common)
    assert "PGD needs gradients, but the model gives none for its images. Use a query attack" in done.sentence()
    assert not list(tmp_path.iterdir())
    done = alu(stripes, "attack", "onnx:own.onnx", "--attack", "square", "--set", "queries=20", *common)
    assert (done.code, done.err) == (0, ""), done
    words = ("--data", "pics", "--n", 6, "--suite", "oblivious", "--budget", "quick", "--out", tmp_path / "r.json")
    done = alu(stripes, "evaluate", "onnx:own.onnx", *words)
    assert done.code == 3, "an evaluation without gradients is incomplete"
    assert "could not run: PGD needs gradients" in done.out
    done = alu(stripes, "certify", "onnx:own.onnx", "--data", "pics", "--n", 2, "--samples", 50, "--first", 10)
    assert (done.code, done.err) == (0, ""), done


def test_wrong_constants_are_said_before_anything_is_trained(tmp_path: Path) -> None:
    exported(tmp_path / "network.onnx")
    sample = data.sample("calibration", n=300)
    for number, label in enumerate(sample.labels.tolist()):
        place = tmp_path / "pics" / sample.classes[label]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(sample.pixels[number].permute(1, 2, 0).numpy()).save(place / f"{number}.png")
    words = ("--data", "pics", "--false-alarm", 0.1, "--purifier", "blur", "--rule", "alu", "--force", "--out", "def")
    wrong = alu(tmp_path, "fit", "--classifier", "onnx:network.onnx@255", *words)
    assert (wrong.code, quiet(wrong)) == (0, ""), wrong
    first = wrong.err.splitlines()[0]
    assert first.startswith("alu: warning: The classifier OnnxClassifier is right on ")
    assert "CIFAR-10's mean and standard deviation" in first  # or, as far as these pictures tell, ImageNet's
    assert "its normalisation is wrong. Give its constants: from_onnx(path, mean=[" in first
    assert re.search(r"or the name onnx:network.onnx@(cifar10|imagenet)\.$", first)
    right = alu(tmp_path, "fit", "--classifier", "onnx:network.onnx@cifar10", *words)
    assert right.code == 0
    assert "normalisation" not in right.err


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("hf:gone/model/deep", "from_huggingface: gone/model/deep is not a folder. Give the path of a folder"),
        (
            "hf:nobody/model",
            "there is no folder nobody/model, and no model of that name here, and the hub did not give it",
        ),
        ("hf:pics", "pics has no config.json. Give a folder that save_pretrained wrote"),
        ("onnx:gone.onnx", "Cannot read gone.onnx: No such file or directory."),
        ("onnx:pics", "Cannot read pics: Is a directory."),
        ("onnx:own.onnx@imagnet", "'imagnet' is no setting of an ONNX classifier."),
        ("onnx:own.onnx@0.5/0", "a standard deviation above 0 for each channel"),
        ("timm:resnet18", "which is not installed"),
        ("sklearn:forest.joblib", "saved as a pickle, which runs code when it is read, and alu reads none"),
        ("hf:", "names nothing. Write hf:FOLDER, timm:NAME, onnx:FILE."),
    ],
)
def test_wrong_names_are_one_sentence(name: str, sentence: str, stripes: Path, tmp_path: Path) -> None:
    if name.startswith("timm:") and find_spec("timm"):
        pytest.skip("timm is installed here")
    before = snapshot(stripes)
    done = alu(stripes, "fit", "--classifier", name, "--data", "pics", "--out", tmp_path / "defense", **OFFLINE)
    assert sentence in done.sentence()
    assert not list(tmp_path.iterdir())
    assert snapshot(stripes) == before


def test_other_classes_are_one_sentence(shapes: Path, stripes: Path, tmp_path: Path) -> None:
    words = ("--data", stripes / "pics", "--purifier", "blur", "--false-alarm", 0.05, "--out", tmp_path / "defense")
    done = alu(shapes, "fit", "--classifier", "hf:model", *words, **OFFLINE)
    note, sentence = done.err.splitlines()
    assert note == "alu: Pictures are scaled to 224 x 224, which ResNetForImageClassification reads."
    assert "answers with 4 classes, but pics has 2: lying, standing. Their number and order must agree." in sentence
    write_pictures(tmp_path / "pics")
    (tmp_path / "pics" / "lying").rename(tmp_path / "pics" / "star")
    words = ("--data", tmp_path / "pics", *words[2:])
    done = alu(shapes, "fit", "--classifier", "hf:model", *words, **OFFLINE)
    assert "pics has the class 'standing', which ResNetForImageClassification does not know: it has star" in done.err
