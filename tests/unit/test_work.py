"""What an interrupted evaluation says to one with other settings: each of them, with both values."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from alu import Defense
from alu.errors import StorageError
from alu.evaluation.run import evaluate
from alu.evaluation.work import Work, differences
from alu.purifiers import Blur
from alu.threat import ThreatModel
from tests.unit.toys import Toy, toy_data

FACTS: dict[str, Any] = {
    "subject": {"name": "demo", "classifier_sha256": "a" * 64, "parts_sha256": "b" * 64},
    "n": 50,
    "images": "c" * 64,
    "threat model": {"norm": "Linf", "eps": 8 / 255, "bounds": [0, 1]},
    "suite": "adaptive",
    "budget": "quick",
    "seed": 0,
    "shard": [0, 1],
    "block size": 50,
    "attacks": {"pgd-20": {"steps": 20}},
    "version": {"alu": "0.1.0", "commit": "abc", "torch": "2"},
}


def changed(**changes: Any) -> dict[str, Any]:
    made = copy.deepcopy(FACTS)
    for name, value in changes.items():
        place = name.replace("_", " ")
        made[place] = {**made[place], **value} if isinstance(value, dict) else value
    return made


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, []),
        ({"n": 100, "images": "d" * 64}, ["n was 50 and is now 100"]),
        ({"images": "d" * 64}, ["the images are not the same"]),
        (
            {"budget": "full", "seed": 3, "attacks": {"pgd-20": {"steps": 100}}},
            ["budget was quick and is now full", "seed was 0 and is now 3"],
        ),
        ({"threat_model": {"eps": 2 / 255}}, ["threat model eps was 8/255 and is now 2/255"]),
        (
            {"threat_model": {"norm": "L2", "eps": 0.5}},
            ["threat model norm was Linf and is now L2", "threat model eps was 8/255 and is now 0.5"],
        ),
        ({"shard": [1, 2]}, ["shard was 1/1 and is now 2/2"]),
        ({"subject": {"name": "demo-pca", "parts_sha256": "e"}}, ["subject name was demo and is now demo-pca"]),
        ({"subject": {"parts_sha256": "e"}}, ["the fitted purifier or detector is not the same"]),
        ({"attacks": {"pgd-20": {"steps": 7}}}, ["the attacks' settings are not the same"]),
        ({"version": {"commit": "def"}}, ["version commit was abc and is now def"]),
    ],
)
def test_every_setting_that_differs_is_named(changes: dict[str, Any], says: list[str]) -> None:
    assert differences(FACTS, changed(**changes)) == says


def test_a_folder_of_an_older_version_is_refused_without_a_traceback(tmp_path: Path) -> None:
    old = {name: value for name, value in FACTS.items() if name not in ("n", "threat model")}
    Work(tmp_path, old)
    with pytest.raises(StorageError, match="n is not the same; threat model is not the same"):
        Work(tmp_path, FACTS)
    (tmp_path / "evaluation.json").write_text("[]")
    with pytest.raises(StorageError, match="subject is not the same; n is not the same"):
        Work(tmp_path, FACTS)


class Fused(Toy):
    """Is interrupted when a block of four comes, as long as it is armed."""

    armed = True

    def forward(self, images: Any) -> Any:
        if self.armed and len(images) == 4:
            raise KeyboardInterrupt
        return super().forward(images)


def test_more_images_than_before(tmp_path: Path) -> None:
    threat, out = ThreatModel("Linf", 0.05), tmp_path / "result.json"
    model = Fused()
    defense = Defense(model, Blur(0.5), rule="purified")
    with pytest.raises(KeyboardInterrupt):
        evaluate(defense, toy_data(6), threat, "oblivious", "quick", out=out, block_size=4)
    model.armed = False
    with pytest.raises(StorageError, match="with other settings: n was 6 and is now 9; block size was 4 and is now 50"):
        evaluate(defense, toy_data(9), threat, "oblivious", "quick", out=out)
    evaluate(defense, toy_data(6), threat, "oblivious", "quick", out=out, block_size=4, diagnostics=False)
