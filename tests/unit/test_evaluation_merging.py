"""Shards: merged, they equal one run; what does not belong together is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alu.errors import UsageError
from alu.evaluation.merging import merge
from alu.evaluation.result import Result
from tests.unit import results


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("n", [60, 47])
@pytest.mark.parametrize("rule", ["alu", "abstain"])
def test_shards_merged_equal_one_run(tmp_path: Path, count: int, n: int, rule: str) -> None:
    whole = results.result(n, rule=rule)
    assert whole.numbers != sorted(whole.numbers)  # the order of a draw, not of the data set
    parts = []
    for index in reversed(range(count)):
        results.part(whole, index, count).save(tmp_path / f"{index}.json")
        parts.append(Result.load(tmp_path / f"{index}.json"))
    assert merge(parts).as_json() == whole.as_json()


def test_what_one_shard_lacks_the_whole_lacks() -> None:
    whole = results.result(40)
    first, second = results.part(whole, 0, 2), results.part(whole, 1, 2)
    second.unmet, second.attacks[3].failed, second.attacks[0].whole = (
        ["no attack without gradients"],
        "no memory",
        False,
    )
    second.attacks[2].notes = ["left-the-ball: far away"]
    second.provenance = {**second.provenance, "processor": "another CPU, 4 cores"}
    merged = merge([first, second])
    assert merged.unmet == ["no attack without gradients"]
    assert merged.attacks[3].failed == "no memory"
    assert not merged.attacks[0].whole
    assert {item.id: item.status for item in merged.diagnostics}["left-the-ball"] == "failed"
    assert merged.provenance["processor"] == "a CPU, 2 cores; another CPU, 4 cores"


def change(field: str, value: Any) -> Callable[[Result], None]:
    return lambda result: setattr(result, field, value)


STRANGERS: dict[str, tuple[Callable[[Result], Any], str]] = {
    "subject": (change("subject", {"name": "other"}), "they differ in what was evaluated."),
    "images": (change("dataset", {"name": "cifar100"}), "they differ in the data set."),
    "threat model": (change("threat", {"norm": "L2", "eps": 0.5}), "they differ in the threat model."),
    "suite": (change("suite", "paper"), r"they differ in the suite \(adaptive and paper\)"),
    "budget": (change("budget", "full"), r"they differ in the budget \(quick and full\)"),
    "version": (
        lambda result: result.provenance.update(alu="0.2.0"),
        r"they differ in the version of alu \(0.1.0 and 0.2.0\)",
    ),
    "commit": (
        lambda result: result.provenance.update(commit="abc"),
        r"they differ in the commit of alu \(0123456789ab and abc\)",
    ),
    "torch": (
        lambda result: result.provenance.update(torch="2.0.0"),
        r"they differ in the version of torch \(2.13.0 and 2.0.0\)",
    ),
    "seed": (lambda result: result.provenance.update(seed=1), r"they differ in the seed \(0 and 1\)"),
    "attacks": (lambda result: result.attacks.pop(), "they differ in the attacks."),
    "settings": (lambda result: result.attacks[0].settings.update(steps=7), "they differ in the attacks."),
    "no bare suite": (change("bare", None), "they differ in the attacks on the bare classifier."),
    "bare suite": (lambda result: result.bare.attacks.pop(), "they differ in the attacks on the bare classifier."),
    "shards": (change("shard", [1, 3]), r"they differ in the number of shards \(2 and 3\)"),
    "twice": (change("numbers", results.part(results.result(40), 0, 2).numbers), "they share images"),
}


@pytest.mark.parametrize("case", STRANGERS)
def test_strangers_are_refused(case: str) -> None:
    spoil, says = STRANGERS[case]
    whole = results.result(40)
    first, second = results.part(whole, 0, 2), results.part(whole, 1, 2)
    merge([first, second])
    spoil(second)
    with pytest.raises(UsageError, match=says):
        merge([first, second])


def test_a_missing_shard_is_named() -> None:
    whole = results.result(40)
    with pytest.raises(UsageError, match="shard 2 of 3 is missing"):
        merge([results.part(whole, 0, 3), results.part(whole, 2, 3)])
    with pytest.raises(UsageError, match="nothing to merge"):
        merge([])


def test_a_whole_result_is_its_own_merger() -> None:
    whole = results.result(40)
    assert merge([whole]) == whole


def test_a_shard_given_twice_is_refused() -> None:
    first = results.part(results.result(40), 0, 2)
    with pytest.raises(UsageError, match="they share images"):
        merge([first, first])
