"""Files with a checksum: what was written is read, and what was changed is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from alu.checked import read_checked, write_checked
from alu.errors import StorageError


def test_what_is_written_is_read(tmp_path: Path) -> None:
    plain = {"numbers": [1, 2.5, None], "names": {"a": "b"}}
    write_checked(tmp_path / "file.json", plain)
    assert read_checked(tmp_path / "file.json", "a file") == plain


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
