"""An evaluation by several processes equals that of one but for times, also after a lost worker or an interruption."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import alu
from alu import Workers
from alu.errors import WorkersError
from tests.toys import Toy, toy_data, toy_defense
from tests.working import mortal_defense

CALL: dict[str, Any] = {"suite": "paper", "budget": "quick", "block_size": 4, "name": "toy"}


def plain(result: alu.Result) -> dict[str, Any]:
    """Everything but times."""
    found = result.as_json()

    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without(one) for key, one in value.items() if key not in ("seconds", "checksum")}
        return [without(one) for one in value] if isinstance(value, list) else value

    kept: dict[str, Any] = without(found)
    return kept


def test_two_workers_equal_one_process(workers: Workers, tmp_path: Path) -> None:
    defense, data = toy_defense(), toy_data(10)
    seen: dict[str, list[tuple[int, int]]] = {}

    def watch(what: str, done: int, total: int) -> None:
        seen.setdefault(what, []).append((done, total))

    one = alu.evaluate(defense, data, **CALL)
    two = alu.evaluate(defense, data, workers=workers, out=tmp_path / "two.json", watch=watch, **CALL)
    assert plain(two) == plain(one)
    assert plain(alu.Result.load(tmp_path / "two.json")) == plain(one)
    assert [path.name for path in tmp_path.iterdir()] == ["two.json"]
    passes = 3 * (len(one.attacks) + 1)
    assert seen["Attacking"][-1] == (passes, passes)
    assert "Attacking the bare classifier" in seen
    assert "Checking the evaluation itself" in seen


def test_a_refusing_defence_is_compared_with_refusal_by_confidence_apart(workers: Workers) -> None:
    call = {**CALL, "suite": "adaptive", "block_size": 1, "diagnostics": False}
    defense, data = toy_defense("abstain", suspicious=0.05), toy_data(2)
    one, two = alu.evaluate(defense, data, **call), alu.evaluate(defense, data, workers=workers, **call)
    assert two.rival is not None
    assert plain(two) == plain(one)


def test_a_worker_that_is_killed_in_the_middle_changes_nothing(workers: Workers, tmp_path: Path) -> None:
    data, mark = toy_data(8), tmp_path / "killed"
    two = alu.evaluate(mortal_defense(mark, 60), data, workers=workers, diagnostics=False, **CALL)
    assert mark.exists(), "a worker was killed"
    one = alu.evaluate(mortal_defense(mark, 60), data, diagnostics=False, **CALL)
    assert plain(two) == plain(one)


def test_an_interrupted_evaluation_goes_on(workers: Workers, tmp_path: Path) -> None:
    data, out = toy_data(8), tmp_path / "cut.json"

    def interrupt(what: str, done: int, total: int) -> None:
        if list((tmp_path / "cut.json.work").glob("block-*.json")):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        alu.evaluate(Toy(), data, workers=workers, out=out, watch=interrupt, diagnostics=False, **CALL)
    assert not out.exists()
    assert list((tmp_path / "cut.json.work").glob("block-*.json")), "what was done is kept"
    again = alu.evaluate(Toy(), data, out=out, diagnostics=False, **CALL)  # by this process alone
    assert plain(again) == plain(alu.evaluate(Toy(), data, diagnostics=False, **CALL))


def test_a_classifier_that_cannot_be_sent_is_one_sentence(workers: Workers) -> None:
    from threading import Lock

    model = Toy()
    model.lock = Lock()
    with pytest.raises(WorkersError, match="This cannot be sent to other processes"):
        alu.evaluate(model, toy_data(4), workers=workers, diagnostics=False, **CALL)
