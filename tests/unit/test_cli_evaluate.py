"""alu evaluate as a function: what it builds, and which results it replaces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alu.cli.evaluate import evaluate, parse_shard, refuse_other_result
from alu.errors import UsageError
from alu.evaluation.evaluate import prepare, run
from alu.evaluation.result import Result
from alu.evaluation.subject import Subject
from alu.threat import ThreatModel
from tests.toys import Toy, toy_data

THREAT = ThreatModel("Linf", 0.1)


def test_a_short_run_does_not_replace_a_long_one(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    ready = prepare(Toy(), toy_data(6), None, THREAT, "adaptive", "quick")
    result = run(ready, out=out, diagnostics=False)
    result.budget = "standard"
    result.save(out)
    before = out.read_bytes()
    says = (
        "holds a result with other settings: n was 6 and is now 4; suite was adaptive and is now paper; "
        r"budget was standard and is now quick. It was not replaced. Choose another --out."
    )
    with pytest.raises(UsageError, match=says):
        refuse_other_result(out, result, prepare(Toy(), toy_data(4), None, THREAT, "paper", "quick"))
    assert out.read_bytes() == before
    refuse_other_result(out, result, prepare(Toy(), toy_data(6), None, THREAT, "adaptive", "standard"))


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Images in a file, in an empty folder."""
    data = toy_data(4)
    np.savez(tmp_path / "toys.npz", images=data.images.permute(0, 2, 3, 1).numpy(), labels=data.labels.numpy(),
             classes=np.array(data.classes))  # fmt: skip
    monkeypatch.chdir(tmp_path)
    return "toys.npz"


def test_a_subject_is_built_once(toys: str, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []
    original = Subject.__init__

    def noting(self: Subject, *arguments: Any) -> None:
        original(self, *arguments)
        built.append(self.name)

    monkeypatch.setattr(Subject, "__init__", noting)
    # Its estimate is printed too, from the same preparation.
    evaluate("tests.toys:Toy", data=toys, suite="paper", budget="standard", out=Path("result.json"))
    assert built == ["tests.toys:Toy"]


def test_an_earlier_result_is_read_once(toys: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = Path("result.json")
    run(prepare(Toy(), toy_data(4), None, THREAT, "paper", "quick"), out=out, diagnostics=False)
    loads: list[Path] = []
    load = Result.load

    def noting(path: Path) -> Result:
        loads.append(path)
        return load(path)

    monkeypatch.setattr(Result, "load", noting)
    with pytest.raises(UsageError, match="suite was paper and is now oblivious"):
        evaluate("tests.toys:Toy", data=toys, suite="oblivious", budget="quick", out=out)
    assert loads == [out]


@pytest.mark.parametrize("text", ["0/2", "3/2", "2", "a/b", "1/"])
def test_shards_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="--shard is i/n with i from 1 to n"):
        parse_shard(text)
    assert parse_shard("2/4") == (1, 4)
