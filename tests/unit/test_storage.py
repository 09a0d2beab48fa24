"""Places that two processes must not write to at once, and files with a checksum."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from alu import storage
from alu.errors import StorageError
from alu.storage import locked, read_checked, write_checked

HOLD = """
import sys, time
from pathlib import Path
from alu.storage import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the place `out`."""
    words = [sys.executable, "-c", HOLD, str(tmp_path / "out")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_process_is_refused_by_name(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(StorageError) as refused, locked(tmp_path / "out"):
        pass
    sentence = rf"{re.escape(str(tmp_path))}/out is being written by another alu \(process {holder.pid}, running since "
    assert re.fullmatch(sentence + r"\d\d:\d\d:\d\d\)\. Wait for it, or choose another place\.", str(refused.value))
    with locked(tmp_path / "other"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == [".out.lock"], "the holder's file stays, ours is gone"


def test_a_killed_process_holds_nothing(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()
    assert (tmp_path / ".out.lock").exists()
    with locked(tmp_path / "out"):
        assert (tmp_path / ".out.lock").read_text().startswith(f"{os.getpid()} ")
    assert not list(tmp_path.iterdir())


def test_folders_that_were_made_for_the_lock_go_with_it_unless_something_was_written(tmp_path: Path) -> None:
    with locked(tmp_path / "a" / "b" / "out"):
        assert (tmp_path / "a" / "b" / ".out.lock").exists()
    assert not list(tmp_path.iterdir())
    with locked(tmp_path / "a" / "out"):
        (tmp_path / "a" / "out").touch()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["out"]


def test_a_lock_from_another_day_has_its_date(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    (tmp_path / ".out.lock").write_text("77 2020-02-29T23:59:01\n")
    with pytest.raises(StorageError, match=r"process 77, running since 2020-02-29 23:59:01"), locked(tmp_path / "out"):
        pass
    (tmp_path / ".out.lock").write_text("")
    with pytest.raises(StorageError, match=r"written by another alu\. Wait"), locked(tmp_path / "out"):
        pass


def test_without_locks_of_the_system_the_process_is_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "fcntl", None)
    out = tmp_path / "out"
    with locked(out), pytest.raises(StorageError, match=rf"process {os.getpid()}"), locked(out):
        pass
    assert not list(tmp_path.iterdir())
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (tmp_path / ".out.lock").write_text(f"{ended.pid} 2020-02-29T23:59:01\n")
    with locked(tmp_path / "out"):
        pass
    assert not list(tmp_path.iterdir())


def test_what_is_written_is_read(tmp_path: Path) -> None:
    plain = {"numbers": [1, 2.5, None], "names": {"a": "b"}}
    write_checked(tmp_path / "file.json", plain)
    assert read_checked(tmp_path / "file.json", "a file", "Copy it.") == plain


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[1]", "is not a list of things."),
        ('{"numbers": [1]}', "is not a list of things."),
        ('{"numbers": [1], "checksum": "x"}', "was changed after it was written: its checksum does not match."),
        ('{"numbers": [NaN], "checksum": "x"}', "was changed after it was written: its checksum does not match."),
        ('{"numbers"', "is not valid JSON"),
    ],
)  # fmt: skip
def test_anything_else_is_refused_in_a_sentence(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "file.json").write_text(content)
    with pytest.raises(StorageError) as caught:
        read_checked(tmp_path / "file.json", "a list of things", "Copy it.")
    assert str(caught.value).startswith(f"{tmp_path / 'file.json'} {says}")


def test_numbers_that_json_does_not_have_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        write_checked(tmp_path / "file.json", {"number": float("inf")})
    assert not list(tmp_path.iterdir())
