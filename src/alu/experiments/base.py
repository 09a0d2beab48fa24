"""Experiment: a question about the paper, answered cell by cell, so that an interrupted run goes on where it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alu.experiments.material import Material

Found = dict[str, Any]
"""What one cell found, as plain values: outcomes of each image as a string of digits, never a mere percentage."""


@dataclass(frozen=True)
class Cell:
    """One piece of an experiment that is measured whole or not at all."""

    key: str
    run: Callable[[], Found]
    needs: tuple[str, ...] = ()
    """Bundled models; where one has not been trained the cell says so and is left empty."""
    version: int = 1
    """Raised when what the cell does has changed: a kept figure of another version is measured again."""


@dataclass(frozen=True)
class Experiment:
    """A table, a figure or a remark of the paper, and how it is measured again here."""

    name: str
    title: str
    question: str
    cells: Callable[[Material], list[Cell]]
    full: dict[str, int]
    """Sizes: how many images, steps and so on."""
    quick: dict[str, int]
    """The same for a first look within five minutes on two cores."""
    differs: str
    """What differs from the paper's set-up, or what it leaves open."""
    why: str
    """Why the full run measures no more than it does."""
    leaves_out: str = ""
    """What the quick form does not measure at all, as a sentence."""

    def sizes(self, quick: bool) -> dict[str, int]:
        """How much is measured."""
        return self.quick if quick else self.full
