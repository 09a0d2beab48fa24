"""Results of `alu reproduce`: read from a folder, and the shares in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from alu.errors import StorageError
from alu.evaluation.intervals import Share
from alu.evaluation.result import checksum
from alu.storage import read_json


def read(path: Path) -> dict[str, Any]:
    """A result as it was written; one that was edited, or that something else wrote, is refused."""
    plain = read_json(path)
    if not isinstance(plain, dict) or "cells" not in plain or "checksum" not in plain:
        raise StorageError(f"{path} is not a result of alu reproduce. Choose another --out, or delete it.")
    said = plain.pop("checksum")
    if said != checksum(plain):
        raise StorageError(f"{path} was changed after it was written. Run alu reproduce --fresh to measure it again.")
    return plain


def share(digits: str) -> Share:
    """How many ones there are among the digits of a cell."""
    return Share(digits.count("1"), len(digits))


def both(first: str, second: str) -> str:
    """One where both have one."""
    return "".join("1" if one == two == "1" else "0" for one, two in zip(first, second, strict=True))


def where(digits: str, chosen: str, value: str = "1") -> str:
    """The digits of the images for which `chosen` has this value."""
    return "".join(digit for digit, choice in zip(digits, chosen, strict=True) if choice == value)


@dataclass
class Results:
    """All results of a folder, by experiment."""

    experiments: dict[str, dict[str, Any]] = field(default_factory=dict)

    @staticmethod
    def open(folder: Path) -> Results:
        """Every result of `alu reproduce` in a folder; other files are passed over."""
        found = {}
        for path in sorted(folder.glob("*.json")):
            plain = read_json(path)
            if isinstance(plain, dict) and "experiment" in plain and "cells" in plain:
                found[str(plain["experiment"])] = read(path)
        return Results(found)

    def cells(self, experiment: str) -> dict[str, Any]:
        """What each measured cell of an experiment found, by key."""
        known = self.experiments.get(experiment, {}).get("cells", {})
        return {key: record["found"] for key, record in known.items() if "found" in record}

    def found(self, experiment: str, cell: str) -> Any:
        """What one cell found; None where it was not measured."""
        return self.cells(experiment).get(cell)

    def absent(self, experiment: str, cell: str) -> str:
        """Why a cell is empty."""
        record = self.experiments.get(experiment, {}).get("cells", {}).get(cell, {})
        return str(record.get("absent", "not measured yet"))
