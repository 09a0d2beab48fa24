"""The evaluator: protocols, cascade, obligations, shards, and bad input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import alu
from alu import Defense
from alu.attacks import PGD
from alu.attacks.base import Attack
from alu.data import Dataset
from alu.errors import AluError, StorageError, UsageError
from alu.evaluation import metrics
from alu.evaluation.merging import merge
from alu.evaluation.result import Result
from alu.evaluation.run import evaluate
from alu.evaluation.suite import Entry, obliged, unmet
from alu.purifiers import Blur
from alu.purifiers.base import Traits
from alu.threat import ThreatModel
from tests.unit.toys import Toy, toy_data, toy_defense

THREAT = ThreatModel("Linf", 0.1)


def without_times(result: Result) -> dict[str, Any]:
    plain = result.as_json()
    plain.pop("checksum")
    for record in [*plain["attacks"], *(plain["bare"] or {"attacks": []})["attacks"]]:
        record.pop("seconds")
    return plain


@pytest.fixture(scope="module")
def judged() -> Result:
    torch.set_num_threads(1)
    return evaluate(toy_defense(), toy_data(12), THREAT, budget="quick", block_size=6)


def test_robust_never_exceeds_clean_and_attacks_only_take_away(judged: Result) -> None:
    assert judged.robust_accuracy <= judged.clean_accuracy
    assert metrics.robust(judged, ["oblivious"]).count >= metrics.robust(judged).count
    for record in judged.attacks:
        assert not record.failed, record.failed
        if record.whole:
            assert record.judged.images == list(range(12))


def test_survivors_only(judged: Result) -> None:
    fallen = {image for image, value in metrics.outcomes(judged.clean, judged.labels).items() if value == 0}
    for record in judged.attacks:
        if not record.whole:
            assert not fallen & set(record.judged.images), record.name
        fallen |= {image for image, value in metrics.outcomes(record.judged, judged.labels).items() if value == 0}


def test_figures_carry_where_they_come_from(judged: Result) -> None:
    assert {"commit", "seed", "torch", "processor"} <= set(judged.provenance)
    pgd = next(record for record in judged.attacks if record.name == "pgd-20")
    assert (pgd.settings["class"], pgd.settings["steps"]) == ("PGD", 20)
    # 20 steps forward and backward, nothing else: what is counted is what was paid.
    assert (pgd.forwards, pgd.backwards) == (12 * 20, 12 * 20)
    assert max(pgd.distance) <= 0.1 + 1e-6
    assert "robust accuracy" in str(judged)


def test_the_adaptive_suite_is_complete_and_the_others_say_that_they_are_not(judged: Result) -> None:
    assert judged.complete
    weak = evaluate(toy_defense(), toy_data(4), THREAT, "oblivious", "quick", diagnostics=False)
    assert not weak.complete
    assert str(weak).startswith("INCOMPLETE: Against an attacker who does not know it")
    assert "\nINCOMPLETE (no gradients of what is deployed" in str(weak)


def test_traits_oblige() -> None:
    everything = Traits(stochastic=True, iterative=True, gradient="twin", detector=True)
    assert obliged(everything) == ["white-box", "detector", "steps", "no-gradient", "transfer", "draws"]
    assert obliged(Traits()) == ["white-box"]
    assert obliged(Traits(batch_dependent=True)) == ["white-box", "alone"]
    entry = Entry("x", "adaptive", "", PGD(), meets=("white-box", "steps"))
    left = unmet(replace(everything, stochastic=False), [entry])
    assert left == [
        "no attack that aims at the detector",
        "no attack without gradients",
        "no images that carry over from simpler or other models",
    ]


def test_a_rejected_image_resists_but_is_not_right() -> None:
    result = evaluate(toy_defense("abstain"), toy_data(10), THREAT, "oblivious", "quick", diagnostics=False)
    assert result.resisted >= result.robust_accuracy
    rejected = [not accepted for record in result.attacks for accepted in record.judged.accepted]
    flagged = [value for record in result.attacks for value in record.judged.flagged]
    assert rejected == flagged


def test_two_shards_merged_equal_one_run(tmp_path: Path, judged: Result) -> None:
    shards = []
    for number in (1, 0):
        path = tmp_path / f"{number}.json"
        evaluate(toy_defense(), toy_data(12), THREAT, budget="quick", block_size=6, shard=(number, 2), out=path)
        shards.append(Result.load(path))
    assert without_times(merge(shards)) == without_times(judged)
    assert not list(tmp_path.glob("*.work"))
    with pytest.raises(UsageError, match="shard 1 of 2 is missing"):
        merge(shards[:1])


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
    assert without_times(again) == without_times(whole)
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
    with pytest.raises(StorageError, match="with other settings: seed was 0 and is now 1. Run it"):
        run(1)
    block = tmp_path / "result.json.work" / "block-0000.json"
    plain = json.loads(block.read_text())
    plain["clean"]["answer"][0] += 1
    block.write_text(json.dumps(plain))
    with pytest.raises(StorageError, match="was changed after it was written"):
        run(0)


def test_anyones_module_is_judged_too() -> None:
    model = Toy()
    result = evaluate(model, toy_data(8), THREAT, budget="quick")
    assert result.clean_accuracy == 1.0
    assert result.complete
    assert [item.id for item in result.diagnostics if item.verdict == "failed"] == []


class Endpoint:
    """A model that answers with plain numbers: no gradient, no module."""

    def __init__(self) -> None:
        self.inner = Toy()

    def __call__(self, images: Tensor) -> Any:
        with torch.no_grad():
            return self.inner(images.detach()).numpy()


def test_without_gradients_the_query_attacks_take_over() -> None:
    result = evaluate(Defense(Endpoint(), Blur(0.5), rule="purified"), toy_data(6), THREAT, budget="quick")
    failed = {record.name for record in result.attacks if record.failed}
    assert {"fgsm", "pgd-20"} <= failed
    query = next(record for record in result.attacks if record.name == "query")
    assert not query.failed
    assert query.judged.images
    assert result.unmet[:-1] == [
        "no gradients of what is deployed",
        "no images that carry over from simpler or other models",
    ]
    assert result.unmet[-1].startswith("fgsm, pgd-20, ")
    assert result.unmet[-1].endswith(" could not run")


def bad(change: str) -> tuple[Any, Dataset, ThreatModel]:
    data, threat = toy_data(4), THREAT
    model: Any = toy_defense()
    if change == "labels":
        data = Dataset(data.pixels, data.labels + 3, tuple("abcdefgh"), "toys", "test")
    if change == "nan":
        model = Toy()
        with torch.no_grad():
            model.layers[1].weight.fill_(float("nan"))
    if change == "uncalibrated":
        model = Defense(Toy(), Blur(0.5), alu.detectors.LogitShift())
    if change == "empty":
        data = data.take([])
    return model, data, threat


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("labels", "labels must run from 0 to 4; these run from"),
        ("nan", "returned NaN or infinite logits"),
        ("uncalibrated", r"Call defense.calibrate\(images\)"),
        ("empty", "nothing to evaluate on"),
    ],
)
def test_bad_input_is_one_sentence(change: str, says: str, tmp_path: Path) -> None:
    model, data, threat = bad(change)
    with pytest.raises(AluError, match=says):
        evaluate(model, data, threat, budget="quick", out=tmp_path / "result.json")
    assert not list(tmp_path.iterdir())


def test_a_model_in_train_mode_is_judged_in_eval_mode_and_left_in_train_mode() -> None:
    model = nn.Sequential(nn.Dropout(0.9), Toy())
    model.train()
    result = evaluate(model, toy_data(4), THREAT, "paper", "quick", diagnostics=False)
    assert result.clean_accuracy == 1.0
    assert all(part.training for part in model.modules())


def test_settings_out_of_range() -> None:
    with pytest.raises(UsageError, match=r"eps=8 is larger than the whole range.*8/255"):
        ThreatModel("Linf", 8)
    for words, says in (({"suite": "adaptiv"}, "Did you mean adaptive"), ({"budget": "fast"}, "There is no budget")):
        with pytest.raises(UsageError, match=says):
            evaluate(toy_defense(), toy_data(2), THREAT, **words)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="2 images are 1 blocks of 50, too few for 2 shards"):
        evaluate(toy_defense(), toy_data(2), THREAT, shard=(0, 2))
    with pytest.raises(UsageError, match="i from 1 to n"):
        evaluate(toy_defense(), toy_data(2), THREAT, shard=(2, 2))


def test_shards_with_an_attack_of_another_batch_size_merge_in_the_order_of_one_run() -> None:
    def judge(shard: tuple[int, int]) -> Result:
        data = toy_data(12).take([5, 0, 3, 11, 8, 1, 9, 2, 7, 4, 10, 6])
        own = Entry("own", "adaptive", "", PGD(eps=0.1, steps=2, batch_size=5), whole=True)
        return evaluate(
            Toy(), data, THREAT, "paper", "quick", block_size=3, shard=shard, extra=(own,), diagnostics=False
        )

    assert merge([judge((0, 2)), judge((1, 2))]).numbers == judge((0, 1)).numbers
