"""The audit log: whole lines whatever happens, rotation, and no file of somebody else."""

from __future__ import annotations

import json
import os
import stat
from contextlib import closing
from pathlib import Path

import pytest

from alu.errors import StorageError
from alu.serve.audit import BLOCK, AuditLog, is_audit
from tests.end_to_end.command import disk_of


def row(number: int) -> dict[str, object]:
    return {"time": "2026-01-01T00:00:00.000+00:00", "number": number}


def numbers(path: Path) -> list[int]:
    return [json.loads(line)["number"] for line in path.read_text().splitlines()]


def test_lines_are_there_without_closing_and_go_on_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "new" / "audit.jsonl"
    log = AuditLog(path)
    log.write([row(1), row(2)])
    assert numbers(path) == [1, 2], "before anything is closed: the process may be killed at any time"
    log.close()
    again = AuditLog(path)
    again.write([row(3)])
    again.close()
    assert (numbers(path), again.repaired) == ([1, 2, 3], 0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("torn", [b"{", b'{"time": "2026', b"x" * (3 * BLOCK)])
def test_a_torn_last_line_is_cut_off(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path)
    log.write([row(1), row(2)])
    log.close()
    with path.open("ab") as file:
        file.write(torn)
    again = AuditLog(path)
    assert again.repaired == len(torn)
    again.write([row(3)])
    again.close()
    assert numbers(path) == [1, 2, 3]


def test_a_file_that_is_one_torn_line_becomes_empty(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b'{"time": "20')
    AuditLog(path).close()
    assert path.read_bytes() == b""


def test_it_is_rotated_by_size_and_the_oldest_go(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    line = len(json.dumps(row(1))) + 1
    log = AuditLog(path, most=2 * line, keep=2)
    for number in range(1, 10):
        log.write([row(number)])
    log.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]
    assert [numbers(tmp_path / name) for name in ("audit.jsonl.2", "audit.jsonl.1", "audit.jsonl")] == [
        [5, 6],
        [7, 8],
        [9],
    ]
    none = AuditLog(path, most=line, keep=0)
    none.write([row(1)])
    none.close()
    assert numbers(path) == [1]


@pytest.mark.parametrize("content", [b"somebody's notes\n", b"\x89PNG\r\n\x1a\n", b'{"other": 1}\n'])
def test_somebody_elses_file_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes"
    path.write_bytes(content)
    with pytest.raises(StorageError, match="not an audit log"):
        AuditLog(path)
    assert path.read_bytes() == content
    with pytest.raises(StorageError, match="not an audit log"):
        AuditLog(tmp_path)
    assert is_audit(tmp_path / "nothing")


def test_a_full_disk_leaves_whole_lines_and_is_one_sentence(tmp_path: Path) -> None:
    with disk_of("64k", tmp_path) as disk:
        with closing(AuditLog(disk / "audit.jsonl")) as log:  # an open file would keep the disk
            log.write([row(1)])
            with pytest.raises(StorageError, match="the disk is full"):
                log.write([row(2)] * 5_000)
            assert numbers(disk / "audit.jsonl") == [1]
            log.write([row(3)])
        assert numbers(disk / "audit.jsonl") == [1, 3]


def test_what_is_no_json_is_not_written(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    with pytest.raises(ValueError, match="not JSON compliant"):
        log.write([row(1), {"time": float("nan")}])
    log.close()
    assert os.path.getsize(tmp_path / "audit.jsonl") == 0
