"""Results on disk: what is written is what is read, and nothing else is accepted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from alu.errors import StorageError
from alu.evaluation.printed import headline
from alu.evaluation.result import Result, checksum
from tests.unit import results


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    results.result(20).save(tmp_path / "result.json")
    return tmp_path / "result.json"


def test_save_and_load(saved: Path) -> None:
    assert Result.load(saved) == results.result(20)
    Result.load(saved).save(saved.with_name("again.json"))
    assert saved.with_name("again.json").read_bytes() == saved.read_bytes()


def test_keys_that_are_numbers_survive(tmp_path: Path) -> None:
    result = results.result(20)
    result.provenance["counts"] = {2: "two", 10: "ten", 9: "nine"}
    result.save(tmp_path / "result.json")
    assert Result.load(tmp_path / "result.json").provenance["counts"] == {"2": "two", "10": "ten", "9": "nine"}


@pytest.mark.parametrize(
    ("old", "new"), [('"answer": [\n      0', '"answer": [\n      1'), ('"split": "test"', '"split": "tast"')]
)
def test_an_edited_result_is_refused(saved: Path, old: str, new: str) -> None:
    text = saved.read_text()
    assert text.count(old) >= 1
    saved.write_text(text.replace(old, new, 1))
    with pytest.raises(StorageError, match="was changed after it was written"):
        Result.load(saved)


def test_a_number_that_is_none_is_refused(saved: Path) -> None:
    saved.write_text(saved.read_text().replace('"seconds": 30.0', '"seconds": NaN', 1))
    assert "NaN" in saved.read_text()
    with pytest.raises(StorageError, match="was changed after it was written"):
        Result.load(saved)


def test_a_truncated_result_is_refused(saved: Path) -> None:
    saved.write_text(saved.read_text()[:-2000])
    with pytest.raises(StorageError, match="is not valid JSON"):
        Result.load(saved)


@pytest.mark.parametrize("content", ["[1, 2]", "{}", '{"format": 1}', '{"format": 7, "checksum": "x"}', "3"])
def test_other_files_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "other.json").write_text(content)
    with pytest.raises(StorageError, match="is not a result of alu evaluate"):
        Result.load(tmp_path / "other.json")


@pytest.mark.parametrize("change", ["no labels", "a field too many", "attacks of another kind"])
def test_fields_that_do_not_fit_are_refused(saved: Path, change: str) -> None:
    plain = json.loads(saved.read_text())
    plain.pop("checksum")
    if change == "no labels":
        plain.pop("labels")
    elif change == "a field too many":
        plain["mood"] = "good"
    else:
        plain["attacks"] = [3]
    saved.write_text(json.dumps({**plain, "checksum": checksum(plain)}))
    with pytest.raises(StorageError, match="is damaged"):
        Result.load(saved)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="Cannot read .*nothing.json: No such file"):
        Result.load(tmp_path / "nothing.json")


def test_the_first_line_says_what_was_judged_and_what_is_missing() -> None:
    result = results.result(20)
    judged = "VAE + ALU on cifar10/test, Linf eps 8/255, suite adaptive, budget quick"
    assert headline(result) == judged
    result.unmet, result.shard = ["no attack without gradients"], [1, 3]
    assert headline(result) == f"INCOMPLETE (no attack without gradients): SHARD 2 OF 3: {judged}"
    lines = str(result).splitlines()
    assert lines[0].startswith("INCOMPLETE, SHARD 2 OF 3: Against an attacker who knows it, this defence ")
    assert lines[:4] == f"INCOMPLETE, SHARD 2 OF 3: {result.verdict}".splitlines()
    assert lines[4] == headline(result)
    model = results.plain(20)
    model.unmet = ["no attack without gradients"]
    assert str(model).splitlines()[0] == headline(model)


def test_print_names_both_protocols_and_every_attack() -> None:
    result = results.result(20)
    result.attacks[-1].failed = "the model has no gradient."
    text = str(result)
    assert "standard protocol" in text
    assert "paper protocol" in text
    for record in result.attacks:
        assert f"\n{record.name} ({record.knowledge})" in text
    assert "could not run: the model has no gradient." in text
    assert "diagnostic more-steps: failed." in text


def test_print_says_nothing_of_flags_without_a_detector() -> None:
    row = next(line for line in str(results.plain(20)).splitlines() if line.startswith("fgsm"))
    assert row.rstrip().endswith("]")
