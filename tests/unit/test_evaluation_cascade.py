"""The cascade: attacks on what is left, exact resume, and settings that differ."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from alu import Defense
from alu.attacks import PGD
from alu.attacks.base import Attack
from alu.errors import StorageError
from alu.evaluation import metrics
from alu.evaluation.cascade import differences, differences_from, open_folder
from alu.evaluation.evaluate import evaluate, prepare
from alu.evaluation.result import Result
from alu.evaluation.suite import Entry
from alu.purifiers import Blur
from alu.threat import ThreatModel
from tests.toys import Toy, toy_data, toy_defense
from tests.unit import results

THREAT, WEAK = ThreatModel("Linf", 0.1), ThreatModel("Linf", 0.03)


FACTS: dict[str, Any] = {
    "subject": {"name": "demo", "classifier_sha256": "a" * 64, "parts_sha256": "b" * 64},
    "n": 50,
    "images": "c" * 64,
    "threat model": {"norm": "Linf", "eps": 8 / 255, "bounds": [0, 1]},
    "suite": "adaptive",
    "budget": "quick",
    "seed": 0,
    "shard": [0, 1],
    "block_size": 50,
    "attacks": {"pgd-20": {"steps": 20}},
    "version": {"alu": "0.1.0", "commit": "abc", "torch": "2"},
}


def changed(**changes: Any) -> dict[str, Any]:
    made = copy.deepcopy(FACTS)
    for name, value in changes.items():
        place = name.replace("threat_model", "threat model")
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
    open_folder(tmp_path, old)
    with pytest.raises(StorageError, match="n is not the same; threat model is not the same"):
        open_folder(tmp_path, FACTS)
    (tmp_path / "evaluation.json").write_text("[]")
    with pytest.raises(StorageError, match="subject is not the same; n is not the same"):
        open_folder(tmp_path, FACTS)


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
    with pytest.raises(StorageError, match="with other settings: n was 6 and is now 9; block_size was 4 and is now 50"):
        evaluate(defense, toy_data(9), threat, "oblivious", "quick", out=out)
    evaluate(defense, toy_data(6), threat, "oblivious", "quick", out=out, block_size=4, diagnostics=False)


def test_an_image_that_is_broken_is_attacked_no_further() -> None:
    result = evaluate(toy_defense(), toy_data(12), THREAT, budget="quick", block_size=6, diagnostics=False)
    fallen = {image for image, value in metrics.outcomes(result.clean, result.labels).items() if value == 0}
    assert len(result.attacks[-1].answers.images) < 12
    for record in result.attacks:
        if not record.whole:
            assert not fallen & set(record.answers.images), record.name
        fallen |= {image for image, value in metrics.outcomes(record.answers, result.labels).items() if value == 0}


class StopAfter(Attack):
    """Stops the whole evaluation after some calls, as a killed process would."""

    calls = 0

    def run(self, model: Any, images: Tensor, labels: Tensor, numbers: Any) -> Tensor:
        type(self).calls += 1
        if type(self).calls == 2:
            raise KeyboardInterrupt
        return images


def test_an_interrupted_evaluation_goes_on_exactly(tmp_path: Path) -> None:
    def run(out: Path) -> Result:
        extra = (Entry("stop", "adaptive", "stops", StopAfter(eps=0.1), whole=True),)
        return evaluate(
            toy_defense(), toy_data(12), THREAT, budget="quick", block_size=4, out=out, extra=extra, diagnostics=False
        )

    StopAfter.calls = 10
    whole = run(tmp_path / "whole.json")
    StopAfter.calls = 0
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "parts.json")
    work = tmp_path / "parts.json.work"
    assert len(list(work.glob("block-*.json"))) == 2
    again = run(tmp_path / "parts.json")
    assert results.without_times(again) == results.without_times(whole)
    assert StopAfter.calls == 4, "the first block, the stop, and the two blocks that were left"
    assert not work.exists()


def test_work_of_another_evaluation_or_that_was_edited_is_refused(tmp_path: Path) -> None:
    StopAfter.calls = 1
    out = tmp_path / "result.json"
    stop = (Entry("stop", "adaptive", "stops", StopAfter(eps=0.1), whole=True),)

    def run(seed: int) -> Result:
        return evaluate(toy_defense(), toy_data(4), THREAT, "oblivious", "quick", seed=seed, out=out, extra=stop)

    with pytest.raises(KeyboardInterrupt):
        run(0)
    with pytest.raises(StorageError, match="with other settings: seed was 0 and is now 1. Finish it"):
        run(1)
    block = tmp_path / "result.json.work" / "block-0000.json"
    plain = json.loads(block.read_text())
    plain["clean"]["answer"][0] += 1
    block.write_text(json.dumps(plain))
    with pytest.raises(StorageError, match="was changed after it was written"):
        run(0)


def test_an_attack_that_breaks_is_noted_and_the_result_incomplete() -> None:
    class Broken(PGD):
        def run(self, *_: Any) -> Tensor:
            raise RuntimeError("sides do not fit")

    extra = (Entry("broken", "adaptive", "", Broken(), whole=True),)
    result = evaluate(toy_defense(), toy_data(4), THREAT, "adaptive", "quick", extra=extra, diagnostics=False)
    assert result.attacks[-1].failed == "It crashed: RuntimeError: sides do not fit"
    assert result.unmet == ["broken could not run"]


class StopAtCall(Toy):
    """Stops the whole evaluation at a call, as a killed process would."""

    calls, last = 0, 0

    def forward(self, images: Tensor) -> Tensor:
        type(self).calls += 1
        if type(self).calls == type(self).last:
            raise KeyboardInterrupt
        return super().forward(images)


def test_an_evaluation_that_was_stopped_in_the_bare_suite_goes_on_exactly(tmp_path: Path) -> None:
    def run(out: Path, last: int = 0, bare: bool = True) -> Result:
        StopAtCall.calls, StopAtCall.last = 0, last
        defense = Defense(StopAtCall(), Blur(0.5), rule="purified")
        return evaluate(
            defense, toy_data(8), WEAK, "paper", "quick", block_size=4, out=out, diagnostics=False, bare=bare
        )

    run(tmp_path / "first.json", bare=False)
    calls = StopAtCall.calls
    whole = run(tmp_path / "whole.json")
    most = StopAtCall.calls
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "parts.json", (calls + most) // 2 + 10)
    work = tmp_path / "parts.json.work"
    assert len(list(work.glob("block-*.json"))) == 2
    assert len(list((work / "bare").glob("block-*.json"))) == 2, "the second block was begun"
    again = run(tmp_path / "parts.json")
    assert StopAtCall.calls < most - calls, "neither the defence nor the first block is attacked again"
    assert not work.exists()
    assert whole.bare is not None
    assert again.bare is not None
    for mine, theirs in ((whole, again), (whole.bare, again.bare)):
        assert mine.clean == theirs.clean
        assert [record.answers for record in mine.attacks] == [record.answers for record in theirs.attacks]
    assert Result.load(tmp_path / "parts.json") == again


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        ({}, []),
        ({"block_size": 3, "bare": False}, []),
        ({"suite": "paper", "budget": "quick"}, ["budget was standard and is now quick"]),
        ({"suite": "oblivious", "seed": 4}, ["suite was paper and is now oblivious", "seed was 0 and is now 4"]),
        ({"threat": WEAK}, ["threat model eps was 25.5/255 and is now 0.03"]),
        ({"name": "mine"}, ["subject name was Toy and is now mine"]),
        ({"shard": (1, 2), "block_size": 2}, ["shard was 1/1 and is now 2/2"]),
        ({"images": toy_data(5)}, ["n was 4 and is now 5"]),
    ],
)  # fmt: skip
def test_an_evaluation_is_compared_with_a_finished_result(changes: dict[str, Any], differs: list[str]) -> None:
    result = evaluate(Toy(), toy_data(4), THREAT, "paper", "quick", diagnostics=False)
    result.budget = "standard"
    result.provenance["commit"] = "another"
    settings = {"images": toy_data(4), "threat": THREAT, "suite": "paper", "budget": "standard", **changes}
    assert differences_from(result, prepare(Toy(), **settings)) == differs
