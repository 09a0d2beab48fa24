"""A saved defence around a classifier of another library finds it again, in a fresh process and after a move."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import alu
from alu.detectors import LogitPeak
from alu.errors import StorageError, UntrustedError
from alu.models import Adapter
from alu.purifiers import Blur
from alu.storage import read_checked, write_checked
from tests.onnx_files import from_text

SAMPLE = alu.data.sample("test").draw(60)
GRAPH = "g (float[n, 3, 32, 32] x) => (float[n, 3] y) { y = ReduceMean<axes=[2, 3], keepdims=0>(x) }"
FRESH = """
import sys, alu
defense = alu.Defense.load(sys.argv[1])
print(defense.classifier.source)
print(defense.decide(alu.data.sample("test").draw(60).images).score.tolist())
"""


def saved(place: Path) -> alu.Defense:
    """A defence around place/models/mean.onnx, saved as place/defense."""
    classifier = alu.models.from_onnx(from_text(place / "models" / "mean.onnx", GRAPH), mean=0.4, std=0.1)
    defense = alu.Defense(classifier, Blur(0.7), LogitPeak(0.05)).calibrate(SAMPLE.images[:40])
    defense.save(place / "defense")
    return defense


def test_a_fresh_process_finds_the_classifier(tmp_path: Path) -> None:
    defense = saved(tmp_path)
    words = [sys.executable, "-c", FRESH, str(tmp_path / "defense")]
    done = subprocess.run(words, cwd="/", capture_output=True, text=True, check=True)
    source, scores = done.stdout.splitlines()
    assert source == f"onnx:{tmp_path}/models/mean.onnx@0.4,0.4,0.4/0.1,0.1,0.1"
    assert json.loads(scores) == defense.decide(SAMPLE.images).score.tolist()


def test_moved_together_they_find_each_other(tmp_path: Path) -> None:
    defense = saved(tmp_path / "here")
    shutil.move(tmp_path / "here", tmp_path / "there")
    again = alu.Defense.load(tmp_path / "there" / "defense")
    assert torch.equal(again.decide(SAMPLE.images).score, defense.decide(SAMPLE.images).score)
    assert isinstance(again.classifier, Adapter)
    assert str(tmp_path / "there") in str(again.classifier.source)


def test_another_file_in_its_place_is_refused(tmp_path: Path) -> None:
    saved(tmp_path)
    file = tmp_path / "models" / "mean.onnx"
    kept = file.read_bytes()
    from_text(file, GRAPH.replace("ReduceMean", "ReduceMax"))
    with pytest.raises(StorageError, match="its weights differ"):
        alu.Defense.load(tmp_path / "defense")
    file.write_bytes(kept)
    with pytest.raises(StorageError, match="its weights differ"):  # the constants count too
        alu.Defense.load(tmp_path / "defense", alu.models.from_onnx(file, mean=0.5, std=0.1))
    file.unlink()
    with pytest.raises(
        StorageError, match=r"was saved around onnx:.*, which is not there any more. Put it back, or pass"
    ):
        alu.Defense.load(tmp_path / "defense")
    elsewhere = from_text(tmp_path / "elsewhere.onnx", GRAPH)
    alu.Defense.load(tmp_path / "defense", alu.models.from_onnx(elsewhere, mean=0.4, std=0.1))


def test_a_model_of_a_hub_is_only_asked_for_with_trust(tmp_path: Path) -> None:
    saved(tmp_path)
    facts = read_checked(tmp_path / "defense" / "defense.json", "a defence", "")
    facts["classifier"] |= {"name": "timm:somebodys/model", "beside": None}
    write_checked(tmp_path / "defense" / "defense.json", facts)
    with pytest.raises(
        UntrustedError, match=r"may fetch its classifier timm:somebodys/model from a hub. Pass trust=True"
    ):
        alu.Defense.load(tmp_path / "defense")


def test_the_name_is_recorded_and_a_function_goes_before_it(tmp_path: Path) -> None:
    defense = saved(tmp_path)

    def record() -> dict[str, str]:
        found: dict[str, str] = json.loads((tmp_path / "defense" / "defense.json").read_text())["classifier"]
        return found

    assert (record()["kind"], record()["beside"]) == ("named", "../models/mean.onnx")
    defense.save(tmp_path / "defense", "my_module:build")
    assert (record()["kind"], record()["factory"]) == ("factory", "my_module:build")
    defense.save(tmp_path / "defense", f"onnx:{tmp_path}/models/mean.onnx@0.4/0.1")
    assert record()["name"] == defense.classifier.source
