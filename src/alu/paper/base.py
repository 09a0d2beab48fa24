"""Experiment: a table, figure or remark of the paper: its cells, how one is measured, how all are shown, its claims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from alu.paper.claims import Claim, Verdict
from alu.paper.store import K, Measured, Results
from alu.paper.views import Panel

if TYPE_CHECKING:
    from torch import Tensor

    from alu.paper.workbench import ImageSet, Workbench
else:  # names for annotations: the real ones need torch, which showing does without
    Tensor = ImageSet = Workbench = Any

__all__ = ["ImageSet", "Tensor", "Workbench"]  # for type checkers, with all that is defined here
Sizes = dict[str, int]
"""How many images, steps and so on, by name."""
EPS = 8 / 255
"""The threat model of every experiment: L∞."""
SUITE = 2
"""Version of the adaptive suite, for every cell that holds a union; 2: images of another network join."""


@dataclass(frozen=True)
class System:
    """A bundled classifier behind a purifier, by their names; "cifar10-vae@5" takes 5 latent steps, others take 20. A
    method with a network of its own is written with it, "adp:cifar10-score"."""

    classifier: str
    purifier: str

    @property
    def dataset(self) -> str:
        """The data set that the classifier was trained on."""
        return self.classifier.rsplit("-", 1)[0]

    @property
    def needs(self) -> tuple[str, ...]:
        """The bundled models it is made of; filters and guided purifiers have none."""
        network = self.purifier.partition("@")[0].rpartition(":")[2]
        both = dict.fromkeys((self.classifier, network))
        return tuple(name for name in both if name.startswith(f"{self.dataset}-"))


@dataclass(frozen=True)
class Cell(Generic[K]):
    """One piece of an experiment that is measured whole or not at all."""

    key: K
    needs: tuple[str, ...] = ()
    """Bundled models; where one has not been trained the cell says so and is left empty."""
    version: int = 1
    """Raised when what the cell does has changed: a kept figure of another version is measured again."""


@dataclass(frozen=True)
class Experiment(Generic[K]):
    """A question about the paper, answered cell by cell, so that an interrupted run goes on where it was."""

    key: type[K]
    cells: Callable[[Sizes], list[Cell[K]]]
    measure: Callable[[Workbench, K], Measured]
    view: Callable[[Results], list[Panel]]
    title: str
    question: str
    sizes: dict[str, tuple[int, int]]
    """How much is measured, in full and in the quick form: a first look within five minutes on two cores."""
    differs: str
    """What differs from the paper's set-up, or what it leaves open."""
    why: str
    """Why the full run measures no more than it does."""
    leaves_out: str = ""
    """What the quick form does not measure at all, as a sentence."""
    claims: tuple[Claim, ...] = ()
    """What the paper says that this experiment decides."""
    timed: bool = False
    """Whether it measures times, which work beside it would change: its cells are not shared out."""
    computed_from: tuple[str, ...] = ()
    """The experiments whose cells it shows, where it measures none of its own."""

    @property
    def name(self) -> str:
        """What the command calls it."""
        return self.key.experiment

    def form(self, quick: bool = False) -> Sizes:
        """The sizes of the full or of the quick form."""
        return {name: pair[quick] for name, pair in self.sizes.items()}

    def verdicts(self, results: Results) -> list[tuple[Claim, Verdict]]:
        """What became of each of its claims."""
        return [(claim, claim.verdict(results, self.name)) for claim in self.claims]
