"""Results of `alu reproduce`: read from a folder, and the shares in them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from alu.errors import StorageError
from alu.evaluation.intervals import Share
from alu.evaluation.result import checksum
from alu.storage import read_json

CLASSIFIERS = ("cifar10-standard", "cifar10-at")
"""What attacks on a classifier alone are measured on."""
THROUGH = ("pgd-20 on f(D(E))", "autoattack on f(D(E))")
ATTACKS = ("pgd-20 on f", "autoattack on f", *THROUGH)
"""Table 2's own attacks; a bare classifier has nothing to be attacked through."""


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


def narrowed(left: str, digits: str) -> str:
    """What stands under one attack more, which may have been tried on fewer of the same images, or on more."""
    n = min(len(digits), len(left))
    return both(left[:n], digits[:n]) + left[n:]


def still_standing(union: dict[str, Any], others: Iterable[str]) -> str:
    """What stands under an adaptive suite and other attacks on the same images; a rejection is no right answer."""
    left = str(union["adaptive"]).replace("2", "0")
    for digits in others:
        left = narrowed(left, digits)
    return left


def incomplete(found: dict[str, Any]) -> str:
    """A stamp on a union from which an attack that its traits oblige is missing, or failed."""
    why = [*found.get("unmet", []), *(f"{name} failed" for name in found.get("failed", {}))]
    return f" INCOMPLETE ({'; '.join(why)})" if why else ""


class MissingCellError(Exception):
    """A cell that a claim reads has not been measured."""


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

    def need(self, experiment: str, cell: str) -> Any:
        """What one cell found; `MissingCellError` where it was not measured."""
        found = self.found(experiment, cell)
        if found is None:
            raise MissingCellError(f"{experiment}, {cell}")
        return found

    def measured(self, experiment: str, names: Iterable[str], cell: str) -> list[str]:
        """Those of the names of which a cell was measured; the first in any case, so that its absence is noticed."""
        first, *others = names
        return [first, *(name for name in others if self.found(experiment, f"{name}/{cell}"))]

    def standing(self, classifier: str, reading: str) -> str:
        """Table 2, standard protocol: images of the adaptive cell that are right clean, under its suite, and under the
        table's own attacks on the same images."""
        union, others = self.need("table2", f"{classifier}/adaptive, {reading}"), []
        for key, found in self.cells("table2").items():
            if key.startswith(f"{classifier}/") and "adaptive" not in key:
                answer = found.get(reading, "")
                others.append(answer if isinstance(answer, str) else answer.get("alu", ""))
        return still_standing(union, others)

    def unfinished(self, classifier: str, reading: str) -> str:
        """A stamp where an attack of table 2's adaptive cell, or of the table itself, is missing, else nothing."""
        union = self.need("table2", f"{classifier}/adaptive, {reading}")
        needed = (name for name in ATTACKS if reading != "bare" or name not in THROUGH)
        missing = [f"{name} not run" for name in needed if not self.found("table2", f"{classifier}/{name}")]
        return incomplete({**union, "unmet": [*union.get("unmet", []), *missing]})

    def together(self, system: str) -> str:
        """`bpda`, standard protocol: images that stand under the adaptive suite and the experiment's own attacks."""
        found = [self.found("bpda", f"{system}/{column}") for column in ("clean", "bpda-eot", "surrogate pgd")]
        return still_standing(self.need("bpda", f"{system}/adaptive"), (cell["outcome"] for cell in found if cell))

    def threshold(self, reading: str, source: str) -> float:
        """The threshold of the score: the 99.5 % quantile of training images, as in the paper ("train"), or the
        conformal one of held-out images at 0.5 % false alarms ("held out")."""
        kind = "train" if source == "train" else "calibration"
        scores = sorted(self.need("histogram", kind)[reading])
        if source == "train":
            place = 0.995 * (len(scores) - 1)
            low = int(place)
            return float(scores[low] + (place - low) * (scores[min(low + 1, len(scores) - 1)] - scores[low]))
        allowed = int(0.005 * (len(scores) + 1) + 1e-9) - 1
        return float(scores[len(scores) - 1 - allowed])

    @property
    def quick(self) -> set[str]:
        """Experiments of which only the quick form is there."""
        return {name for name, known in self.experiments.items() if known.get("quick")}

    def absent(self, experiment: str, cell: str) -> str:
        """Why a cell is empty."""
        record = self.experiments.get(experiment, {}).get("cells", {}).get(cell, {})
        return str(record.get("absent", "not measured yet"))
