"""Results on disk: what is written is what is read, and nothing else is accepted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from alu.errors import StorageError
from alu.evaluation.result import Result
from alu.evaluation.verdicts import verdicts
from alu.storage import checksum, read_json, write_checked
from tests.conftest import ROOT
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


@pytest.mark.parametrize("content", ["[1, 2]", "{}", '{"format": 1}', "3"])
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


def test_a_result_of_an_older_version_is_read(tmp_path: Path) -> None:
    results.result(20).save(tmp_path / "result.json")
    plain = read_json(tmp_path / "result.json")
    for name in ("checksum", "bare"):
        plain.pop(name)
    write_checked(tmp_path / "old.json", plain)
    old = Result.load(tmp_path / "old.json")
    assert old.bare is None
    assert str(old).startswith("Against an attacker who knows it, it is not known")


def test_a_result_of_an_earlier_version_is_read_as_it_was_written() -> None:
    # Written before fields of records and diagnostics got other names in code.
    path = Path(__file__).parent / "stored" / "defense.json"
    result = Result.load(path)
    assert (result.clean_accuracy, result.robust_accuracy, result.block_size) == (1.0, 0.125, 5)
    assert result.attacks[0].answers.answer == read_json(path)["attacks"][0]["judged"]["answer"]
    assert {item.status for item in result.diagnostics} == {"passed", "not run"}
    assert result.bare is not None
    assert len(result.bare.attacks) == 5
    assert result.as_json() == read_json(path), "and would be written again as it was"


def test_files_of_another_format_or_another_command_are_refused(tmp_path: Path) -> None:
    write_checked(tmp_path / "new.json", {"format": 7})
    with pytest.raises(StorageError, match=r"is not a result of alu evaluate \(format 1\). Evaluate again"):
        Result.load(tmp_path / "new.json")
    with pytest.raises(StorageError, match="is a result of alu reproduce; its page is .*paper.html"):
        Result.load(ROOT / "results" / "table2.json")


def test_a_row_is_flat_and_says_what_was_measured() -> None:
    row = results.result(20).row()
    assert json.loads(json.dumps(row)) == row
    assert all(isinstance(value, str | int | float | None) for value in row.values())
    result = results.result(20)
    assert (row["name"], row["n"], row["dataset"], row["norm"], row["eps"]) == (
        "VAE + ALU",
        20,
        "cifar10",
        "Linf",
        8 / 255,
    )
    assert (row["clean"], row["robust"], row["resisted"]) == (
        result.clean_accuracy, result.robust_accuracy, result.resisted,
    )  # fmt: skip
    (adaptive,) = (verdict for verdict in verdicts(result) if verdict.level == "adaptive")
    assert (row["verdict"], row["bare_robust"]) == (adaptive.verdict, adaptive.bare.value)
    assert (row["suite"], row["budget"], row["seed"], row["commit"]) == ("adaptive", "quick", 0, "0123456789ab")
    assert (row["complete"], row["shard"]) == (True, "1/1")
    bare = results.plain(20).row()
    assert (bare["verdict"], bare["bare_robust"]) == (None, None)
    assert bare.keys() == row.keys()
    result.bare = None
    assert result.row()["verdict"] is None, "without the bare classifier's own attacks it is not known"
