"""Results of `alu reproduce`: how cells are named, and how their files are written and read. No torch here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform

from alu.errors import StorageError
from alu.provenance import provenance
from alu.stats import Share
from alu.storage import read_checked, read_json, write_checked

if TYPE_CHECKING:
    from torch import Tensor

    from alu.decision import Decision

Measured = dict[str, Any]
"""What one cell measured, as plain values: a digit for each image (1 right, 0 wrong, 2 rejected), no percentages."""
NOT_YET = "not measured yet"
PUBLISHED = read_json(Path(__file__).with_name("published.json"))
"""The paper's own numbers."""


class Reading(StrEnum):
    """How an answer is made: by the classifier alone, by the rule with one of its references, or after purifying."""

    BARE = "bare"
    INPUT = "input"
    RECONSTRUCTION = "reconstruction"
    PURIFIED = "purified"
    ABSTAIN = "abstain"
    GRADED = "graded"

    @property
    def path(self) -> tuple[str, ...]:
        """Where its answers stand in a cell of `Workbench.answers`."""
        return (self, "alu") if self in (Reading.INPUT, Reading.RECONSTRUCTION) else (self,)


ALU_READINGS = (Reading.INPUT, Reading.RECONSTRUCTION)
"""The readings of the paper's rule."""
ON_F, ON_VAE = "on f", "on f(D(E))"
"""What an attack differentiates: the classifier, or the classifier behind encoder and decoder."""


class Images(StrEnum):
    """Test images by name: "clean", or an attack and what it differentiates, such as "pgd-20 on f"."""

    @property
    def attack(self) -> str:
        """The attack's name."""
        return self.split(" ")[0]

    @property
    def through(self) -> bool:
        """Whether the attack goes through the purifier, or through encoder and decoder in its place."""
        return self.endswith((ON_VAE, "through"))

    @property
    def heading(self) -> str:
        """The name as a reader writes it."""
        return self.replace("pgd", "PGD").replace("autoattack", "AutoAttack")


class Column(Images):
    """Test images as they are, or under one of the paper's attacks."""

    CLEAN = "clean"
    PGD_ON_F = f"pgd-20 {ON_F}"
    PGD_ON_VAE = f"pgd-20 {ON_VAE}"
    AUTOATTACK_ON_F = f"autoattack {ON_F}"
    AUTOATTACK_ON_VAE = f"autoattack {ON_VAE}"


@dataclass(frozen=True)
class Adaptive:
    """Every attack of the adaptive suite together, against one reading."""

    reading: Reading

    def __str__(self) -> str:
        return f"adaptive, {self.reading}"


@dataclass_transform(frozen_default=True)
class Key:
    """Names a cell: `str(key)` is the cell's name in its experiment's file, "system, reading/attack".

    An experiment derives a class of its own, which is a frozen dataclass:

    class Key(store.Key, experiment="table2"):
        classifier: str
        column: Column
    """

    experiment: ClassVar[str]

    def __init_subclass__(cls, experiment: str) -> None:
        cls.experiment = experiment
        dataclass(frozen=True)(cls)

    def __str__(self) -> str:
        first, *others = vars(self).values()
        return str(first) + "".join(f", {one}" if isinstance(one, Reading) else f"/{one}" for one in others)


K = TypeVar("K", bound=Key)


class MissingCellError(Exception):
    """A cell that a claim needs has not been measured."""


def write(path: Path, result: dict[str, Any], seed: int) -> None:
    """Write a result with where it comes from; its own checksum shows whether it was edited."""
    write_checked(path, {**result, "provenance": provenance(seed)})


def read(path: Path) -> dict[str, Any]:
    """A result as it was written; one that was edited, or that something else wrote, is refused."""
    what = "a result of alu reproduce; choose another folder, or delete the file"
    plain = read_checked(path, what, "Measure it again with fresh=True.")
    if "cells" not in plain:
        raise StorageError(f"{path} is not {what}.")
    return plain


@dataclass
class Results:
    """All results of a folder, by experiment."""

    experiments: dict[str, dict[str, Any]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set, compare=False)
    """Experiments of which a cell was asked for."""

    @staticmethod
    def open(folder: Path) -> Results:
        """Every result of `alu reproduce` in a folder; other files are passed over."""
        experiments = {}
        for path in sorted(folder.glob("*.json")):
            plain = read_json(path)
            if isinstance(plain, dict) and "experiment" in plain and "cells" in plain:
                experiments[str(plain["experiment"])] = read(path)
        return Results(experiments)

    def record(self, key: Key) -> dict[str, Any]:
        """A cell as it stands in its file: what it measured and where that comes from, or why it is empty."""
        self.used.add(key.experiment)
        record: dict[str, Any] = self.experiments.get(key.experiment, {}).get("cells", {}).get(str(key), {})
        return record

    def get(self, key: Key) -> Measured | None:
        """What a cell measured; None where it is empty."""
        return self.record(key).get("found")

    def need(self, key: Key) -> Measured:
        """What a cell measured; `MissingCellError` where it is empty."""
        measured = self.get(key)
        if measured is None:
            raise MissingCellError(f"{key.experiment}, {key}")
        return measured

    def measured(self, keys: Iterable[K]) -> list[tuple[K, Measured]]:
        """Those of the keys whose cells were measured, with what they measured."""
        return [(key, measured) for key in keys if (measured := self.get(key)) is not None]

    def why_empty(self, key: Key) -> str:
        """Why a cell is empty."""
        return str(self.record(key).get("absent", NOT_YET))

    @property
    def quick(self) -> set[str]:
        """Experiments of which only the quick form is there."""
        return {name for name, known in self.experiments.items() if known.get("quick")}


def digits(yes: Tensor) -> str:
    """One digit for each image: 1 for yes, 0 for no."""
    return "".join("1" if value else "0" for value in yes.tolist())


def rounded(values: Tensor) -> list[float]:
    """Plain numbers of three digits behind the point."""
    return [round(float(value), 3) for value in values]


def outcomes(decision: Decision, labels: Tensor) -> str:
    """Right (1), wrong (0) or rejected (2) for each image."""
    return "".join(map(str, decision.outcome(labels).tolist()))


def ones(digits: str) -> Share:
    """How many ones there are among the digits of a cell."""
    return Share(digits.count("1"), len(digits))


def both(first: str, second: str) -> str:
    """One where both have one."""
    return "".join("1" if one == two == "1" else "0" for one, two in zip(first, second, strict=True))


def select(digits: str, by: str, value: str = "1") -> str:
    """The digits of the images for which `by` has this value."""
    return "".join(digit for digit, choice in zip(digits, by, strict=True) if choice == value)


def answer(measured: Measured, *path: str) -> str:
    """The digits at a place of a cell, such as ("input", "alu"); none where there is no such place."""
    value: Any = measured
    for step in path:
        value = value.get(step, "") if isinstance(value, dict) else ""
    return str(value)


def standing(union: Measured, cells: Iterable[Measured | None] = (), *path: str) -> str:
    """What stands under an adaptive suite and under the attacks of other cells; a rejection is no right answer.

    Another attack may have been tried on fewer of the same images, or on more: those that are common are the first.
    """
    left = str(union["adaptive"]).replace("2", "0")
    for cell in filter(None, cells):
        digits = answer(cell, *path)
        n = min(len(digits), len(left))
        left = both(left[:n], digits[:n]) + left[n:]
    return left


def incomplete(union: Measured) -> str:
    """A stamp on a union from which an attack that its traits oblige is missing, or failed."""
    why = [*union.get("unmet", []), *(f"{name} failed" for name in union.get("failed", {}))]
    return f" INCOMPLETE ({'; '.join(why)})" if why else ""
