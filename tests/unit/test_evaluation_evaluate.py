"""The evaluator from outside: what it accepts, what it refuses, and what its results hold."""

from __future__ import annotations

import doctest
import inspect
import re
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import alu
from alu import Defense
from alu.attacks import PGD
from alu.data import Dataset
from alu.errors import AluError, UsageError
from alu.evaluation import metrics
from alu.evaluation.evaluate import evaluate, prepare, run
from alu.evaluation.merging import merge
from alu.evaluation.result import Result
from alu.evaluation.suite import Entry
from alu.evaluation.verdicts import bare_share
from alu.purifiers import Blur
from alu.storage import read_json
from alu.threat import ThreatModel
from tests.toys import Endpoint, Toy, sampled, toy_data, toy_defense
from tests.unit import results

THREAT = ThreatModel("Linf", 0.1)


@pytest.fixture(scope="module")
def evaluated() -> Result:
    torch.set_num_threads(1)
    return evaluate(toy_defense(), toy_data(12), THREAT, budget="quick", block_size=6)


def test_robust_never_exceeds_clean_and_attacks_only_take_away(evaluated: Result) -> None:
    assert evaluated.robust_accuracy <= evaluated.clean_accuracy
    assert metrics.robust(evaluated, ["oblivious"]).count >= metrics.robust(evaluated).count
    for record in evaluated.attacks:
        assert not record.failed, record.failed
        if record.whole:
            assert record.answers.images == list(range(12))


def test_figures_carry_where_they_come_from(evaluated: Result) -> None:
    assert {"commit", "seed", "torch", "processor"} <= set(evaluated.provenance)
    pgd = next(record for record in evaluated.attacks if record.name == "pgd-20")
    assert (pgd.settings["class"], pgd.settings["steps"]) == ("PGD", 20)
    # 20 steps forward and backward, nothing else: what is counted is what was paid.
    assert (pgd.forwards, pgd.backwards) == (12 * 20, 12 * 20)
    assert max(pgd.distance) <= 0.1 + 1e-6
    assert "robust accuracy" in str(evaluated)


def test_a_rejected_image_resists_but_is_not_right() -> None:
    result = evaluate(toy_defense("abstain"), toy_data(10), THREAT, "oblivious", "quick", diagnostics=False)
    assert result.resisted >= result.robust_accuracy
    rejected = [not accepted for record in result.attacks for accepted in record.answers.accepted]
    flagged = [value for record in result.attacks for value in record.answers.flagged]
    assert rejected == flagged


def test_two_shards_merged_equal_one_run(tmp_path: Path, evaluated: Result) -> None:
    shards = []
    for number in (1, 0):
        path = tmp_path / f"{number}.json"
        evaluate(toy_defense(), toy_data(12), THREAT, budget="quick", block_size=6, shard=(number, 2), out=path)
        shards.append(Result.load(path))
    assert results.without_times(merge(shards)) == results.without_times(evaluated)
    assert not list(tmp_path.glob("*.work"))
    with pytest.raises(UsageError, match="shard 1 of 2 is missing"):
        merge(shards[:1])


def test_shards_with_an_attack_of_another_batch_size_merge_in_the_order_of_one_run() -> None:
    def judge(shard: tuple[int, int]) -> Result:
        data = toy_data(12).take([5, 0, 3, 11, 8, 1, 9, 2, 7, 4, 10, 6])
        own = Entry("own", "adaptive", "", PGD(eps=0.1, steps=2, batch_size=5), whole=True)
        return evaluate(
            Toy(), data, THREAT, "paper", "quick", block_size=3, shard=shard, extra=(own,), diagnostics=False
        )

    assert merge([judge((0, 2)), judge((1, 2))]).numbers == judge((0, 1)).numbers


def test_any_module_is_evaluated_too() -> None:
    model = Toy()
    result = evaluate(model, toy_data(8), THREAT, budget="quick")
    assert result.clean_accuracy == 1.0
    assert result.complete
    assert [item.id for item in result.diagnostics if item.status == "failed"] == []


def test_without_gradients_the_query_attacks_take_over() -> None:
    result = evaluate(Defense(Endpoint(), Blur(0.5), rule="purified"), toy_data(6), THREAT, budget="quick")
    failed = {record.name for record in result.attacks if record.failed}
    assert {"fgsm", "pgd-20"} <= failed
    query = next(record for record in result.attacks if record.name == "query")
    assert not query.failed
    assert query.answers.images
    assert result.unmet[:-1] == [
        "no gradient attack on the deployed output",
        "no transfer attack from simpler or other models",
    ]
    assert result.unmet[-1].startswith("fgsm, pgd-20, ")
    assert result.unmet[-1].endswith(" could not run")


def bad(change: str) -> tuple[Any, Dataset, ThreatModel]:
    data, threat = toy_data(4), THREAT
    model: Any = toy_defense()
    if change == "classes":
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
        ("classes", "answers with 5 classes, but toys has 8: a, b, c, d, e"),
        ("nan", "returned NaN or infinite logits"),
        ("uncalibrated", r"Call defense.calibrate\(images\)"),
        ("empty", "no images to evaluate on"),
    ],
)
def test_bad_input_is_one_sentence(change: str, says: str, tmp_path: Path) -> None:
    model, data, threat = bad(change)
    with pytest.raises(AluError, match=says):
        evaluate(model, data, threat, budget="quick", out=tmp_path / "result.json")
    assert not list(tmp_path.iterdir())


def test_a_model_in_train_mode_is_evaluated_in_eval_mode_and_left_in_train_mode() -> None:
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
    with pytest.raises(UsageError, match="2 images make 1 blocks of 50, too few for 2 shards"):
        evaluate(toy_defense(), toy_data(2), THREAT, shard=(0, 2))
    with pytest.raises(UsageError, match=r"shard=\(i, n\) with i from 0 to n - 1; it was given \(2, 2\)"):
        evaluate(toy_defense(), toy_data(2), THREAT, shard=(2, 2))


def test_a_model_in_train_mode_is_evaluated_as_it_was_given() -> None:
    model = nn.Sequential(nn.BatchNorm2d(3), Toy()).train()
    evaluate(model, toy_data(6), THREAT, "oblivious", "quick", diagnostics=False)
    assert int(model[0].num_batches_tracked) == 0  # type: ignore[arg-type]
    assert model.training


def test_blocks_of_nothing() -> None:
    with pytest.raises(UsageError, match="block_size of at least 1"):
        evaluate(Toy(), toy_data(2), THREAT, block_size=0)


def test_an_evaluation_attacks_the_classifier_too() -> None:
    data = toy_data(12)
    result = evaluate(toy_defense(), data, THREAT, budget="quick", diagnostics=False)
    alone = evaluate(Toy(), data, THREAT, budget="quick", diagnostics=False)
    assert result.bare is not None
    assert [record.answers for record in result.bare.attacks] == [record.answers for record in alone.attacks]
    assert (result.bare.clean, result.bare.subject, result.bare.diagnostics) == (alone.clean, alone.subject, [])
    assert result.bare.clean.answer == result.clean.bare
    assert result.bare.attacks[0].name == "pgd-20"
    assert str(result).startswith("Against an attacker who knows it, ")
    assert f"bare classifier           {bare_share(result)[0]}   under its own attacks: pgd-20, cw-linf" in str(result)
    assert alone.bare is None
    assert evaluate(toy_defense(), data, THREAT, budget="quick", diagnostics=False, bare=False).bare is None


def test_a_classifier_without_gradients_meets_the_attacks_that_need_none() -> None:
    result = evaluate(
        Defense(Endpoint(), Blur(0.5), rule="purified"), toy_data(4), THREAT, budget="quick", diagnostics=False
    )
    assert result.bare is not None
    ran = [record.name for record in result.bare.attacks if not record.failed]
    assert ran == ["square"]
    assert "bare at most " in result.verdict.splitlines()[0]


def test_tensors_and_a_dataset_give_the_same_result() -> None:
    data, model = toy_data(6), Toy()
    by_dataset = evaluate(model, data, THREAT, "paper", "quick", diagnostics=False)
    by_tensors = evaluate(model, data.images, data.labels, THREAT, "paper", "quick", diagnostics=False)
    assert by_tensors.clean == by_dataset.clean
    assert [record.answers for record in by_tensors.attacks] == [record.answers for record in by_dataset.attacks]
    assert (by_tensors.threat, by_tensors.suite, by_tensors.budget) == ({"norm": "Linf", "eps": 0.1}, "paper", "quick")
    assert by_tensors.classes == ["0", "1", "2", "3", "4"]
    named = evaluate(
        model, images=data.images, labels=data.labels, suite="oblivious", budget="quick", classes=data.classes,
        name="mine", diagnostics=False,
    )  # fmt: skip
    assert (named.classes, named.subject["name"]) == (list(data.classes), "mine")
    assert alu.evaluate is evaluate
    assert alu.Result is Result


def test_class_names_are_those_of_the_defence() -> None:
    network = alu.models.load("cifar10-standard")
    sample = alu.data.sample("test").take([0, 1])
    assert prepare(network, sample.images, sample.labels, budget="quick").dataset.classes == sample.classes


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((toy_data(2).images,), r"needs the labels of its images: alu.evaluate\(defense, images, labels\)"),
        ((toy_data(2).images, toy_data(3).labels), r"one whole-number label per image, shape \[2\]"),
        ((toy_data(2).images * 255, toy_data(2).labels), r"needs images in \[0, 1\]; these run .* Divide by 255"),
        ((toy_data(2).images, toy_data(2).labels + 9), "labels run from .* but there are 5 classes"),
        ((toy_data(0).images, toy_data(0).labels), "no images to evaluate on"),
    ],
)
def test_bad_tensors_are_one_sentence(arguments: tuple[Tensor, ...], says: str) -> None:
    with pytest.raises(AluError, match=says):
        evaluate(Toy(), *arguments, budget="quick")


def test_a_dataset_has_labels_and_names_of_its_own() -> None:
    with pytest.raises(UsageError, match="holds its own labels and class names. Leave out labels and classes"):
        evaluate(Toy(), toy_data(2), THREAT, classes=list("abcde"))  # type: ignore[call-overload]


def test_images_that_a_subject_does_not_read_are_refused() -> None:
    wide = torch.zeros((2, 3, 8, 12))
    labels = torch.zeros(2, dtype=torch.int64)
    with pytest.raises(AluError, match="reads images of 3 x 8 x 8 .* those in images are 3 x 8 x 12. Scale them"):
        evaluate(toy_defense(), wide, labels)
    with pytest.raises(AluError, match="Toy must take images .* but failed on them: RuntimeError"):
        evaluate(Toy(), wide, labels)
    with pytest.raises(AluError, match="cifar10-standard reads images of 3 x 32 x 32"):
        evaluate(alu.models.load("cifar10-standard"), wide, labels)


def test_what_is_prepared_is_prepared_once() -> None:
    class Counting(Toy):
        calls = 0

        def forward(self, images: Tensor) -> Tensor:
            type(self).calls += 1
            return super().forward(images)

    ready = prepare(Counting(), toy_data(4), None, THREAT, "oblivious", "quick")
    before = Counting.calls
    first = run(ready, diagnostics=False)
    # The clean answers, 20 steps of pgd-20, and the answers to its images, all of which are broken: nothing else.
    assert Counting.calls - before == 22
    assert results.without_times(run(ready, diagnostics=False)) == results.without_times(first)
    with pytest.raises(FrozenInstanceError):
        ready.shard = (0, 2)  # type: ignore[misc]


LATER = ("search", "mixture", "starts")
"""Traits and settings that came after the stored results were written."""


def same(stored: Any, now: Any, at: str = "") -> None:
    """Equal but for prose, times and versions; floats up to what another processor may round differently."""
    if isinstance(stored, dict):
        stored = {name: value for name, value in stored.items() if name != "told"}  # was no setting of an attack
        now = {name: value for name, value in now.items() if name not in LATER}
        assert list(now) == list(stored), at
        for name in stored:
            if name not in ("says", "about", "seconds", "provenance", "checksum"):
                same(stored[name], now[name], f"{at}/{name}")
    elif isinstance(stored, list):
        assert len(now) == len(stored), at
        for place, (before, after) in enumerate(zip(stored, now, strict=True)):
            same(before, after, f"{at}/{place}")
    elif at.endswith(("/forwards", "/backwards")):
        assert 0 <= now <= stored, at  # later versions may ask less for the same outcomes
    elif isinstance(stored, float):
        assert now == pytest.approx(stored, rel=1e-2, abs=2e-3), at
    elif not (isinstance(stored, str) and stored.startswith("data:image/png")):
        assert now == stored, at


@pytest.mark.parametrize("name", ["defense", "random"])
def test_outcomes_are_those_of_the_version_that_wrote_the_stored_result(name: str) -> None:
    path = Path(__file__).parent / "stored" / f"{name}.json"
    if name == "defense":
        now = evaluate(toy_defense("purified"), toy_data(8), ThreatModel("Linf", 0.05), budget="quick", block_size=5)
    else:
        defense = Defense(Toy(), sampled(), rule="purified")
        now = evaluate(
            defense, toy_data(3), ThreatModel("L2", 0.15), budget="quick", block_size=2, seed=1, name="random",
            diagnostics=False,
        )  # fmt: skip
    same(read_json(path), now.as_json())


@pytest.mark.parametrize("name", ["evaluate", "Result"])
def test_docstrings_describe_every_parameter_and_their_examples_run(name: str) -> None:
    thing = getattr(alu, name)
    text = inspect.cleandoc(thing.__doc__)
    described = re.search(r"Parameters\n-+\n(.*?)\n\nExamples", text, re.S)
    assert described is not None
    heads = [line for line in described[1].splitlines() if line and not line.startswith(" ")]
    assert sorted(", ".join(heads).split(", ")) == sorted(inspect.signature(thing).parameters)
    sample = alu.data.sample("test").draw(4)
    names = {"alu": alu, "classifier": alu.models.load("cifar10-standard"), **vars(sample), "images": sample.images}
    failures: list[str] = []
    doctest.DocTestRunner().run(doctest.DocTestParser().get_doctest(text, names, name, None, 0), out=failures.append)
    assert ">>> " in text
    assert failures == []
