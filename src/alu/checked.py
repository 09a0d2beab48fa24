"""JSON files that carry a checksum of their content, so that an edited or damaged file is noticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alu.errors import StorageError
from alu.storage import checksum, read_json, write_json


def write_checked(path: Path, plain: dict[str, Any]) -> None:
    """Write plain values as JSON, with their checksum; the file appears whole or not at all."""
    write_json(path, {**plain, "checksum": checksum(plain)})


def read_checked(path: Path, what: str, advice: str = "Make it again.") -> dict[str, Any]:
    """Read what `write_checked` wrote, without the checksum.

    Parameters
    ----------
    path
        The file.
    what
        What the file should be, for the error message: "a result of alu evaluate".
    advice
        What to do with a file that was changed, a sentence.
    """
    plain = read_json(path)
    if not isinstance(plain, dict) or "checksum" not in plain:
        raise StorageError(f"{path} is not {what}.")
    stated = plain.pop("checksum")
    try:
        intact = stated == checksum(plain)
    except ValueError:  # NaN and infinite numbers, which `write_checked` refuses
        intact = False
    if not intact:
        raise StorageError(f"{path} was changed after it was written: its checksum does not match. {advice}")
    return plain
