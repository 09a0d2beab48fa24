"""The map of `encoder`: its VAEs, its points, and which of them comes nearest to the paper's figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from alu.paper import store
from alu.paper.linear_vaes import START, Linear
from alu.paper.store import Column, Measured, Reading, answer, ones
from alu.stats import Share

READING = Reading.RECONSTRUCTION
"""The reading that the paper's figures fit."""
OWN = "own"
"""A classifier fine-tuned on the outputs of the VAE of the cell."""
PLUG_IN = "cifar10-unified"
"""A classifier that has seen the outputs of another VAE."""
DEEP = ("cifar10-vae-deep", "cifar10-unified-deep")
STEPS = (1, 2, 5, 10, 20, 50, 100, 200)
RATES = {"linear": (0.1,), "bundled": (0.1, 1.0)}
"""Rates of gradient descent, in units of 1 over the largest curvature of the squared error."""
LINEAR_STEPS = 50
"""So many steps of rate 0.1 are 99.5 % of the way to a projection."""
KINDS = {"all flagged": "Attacked, right if all were flagged", "flagged": "Attacked and flagged"}
ATTACKED_AS = f"{Column.PGD_ON_VAE.heading}, {READING} reading."
USEFUL = 0.80
"""A VAE through which fewer clean images are right is no answer, however well it detects."""
CODE, BEST, ATTACK = "the encoder's picture", "the picture after all steps", "the attacked picture itself"


LINEAR = [
    *(Linear("dense", code, "whitened") for code in (64, 128, 256, 512, 1024)),
    *(Linear("dense", code, "deep") for code in (64, 256, 1024)),
    *(Linear("dense", code, "shallow") for code in (256, 1024)),
    *(Linear("spatial", code, "whitened") for code in (256, 1024)),
    Linear("spatial", 1024, "deep"),
]
QUICK = [Linear("dense", 256, encoder) for encoder in ("whitened", "deep")]


class Key(store.Key, experiment="encoder"):
    """A VAE, by the words of `Linear` or by its name, and a classifier behind it."""

    vae: str
    classifier: str


BUNDLED = [Key("cifar10-vae", PLUG_IN), Key(DEEP[0], START), Key(*DEEP)]


def keys(some: Sequence[Linear] = LINEAR) -> list[Key]:
    """Every linear VAE with a plug-in classifier and with its own, then the bundled ones."""
    return [*(Key(str(one), classifier) for one in some for classifier in (PLUG_IN, OWN)), *BUNDLED]


@dataclass(frozen=True)
class Point:
    """One setting of the latent steps, and what the rule answered there."""

    rate: str
    steps: int
    row: Measured

    def share(self, kind: str, images: str = "attacked") -> Share:
        """The share of these images for which this is so: "all flagged", "flagged", "alu" or "purified"."""
        return ones(answer(self.row, images, kind))

    @property
    def lacks(self) -> float:
        """How far the paper's figures are away: the larger of what is missing at 95 % right and 90 % flagged."""
        return max(0.95 - self.share("all flagged").value, 0.90 - self.share("flagged").value)

    def __str__(self) -> str:
        return f"N = {self.steps} at rate {self.rate}"


def points(measured: Measured) -> list[Point]:
    """Every point of a cell."""
    return [Point(rate, int(n), row) for rate, rows in measured["by rate"].items() for n, row in rows.items()]


def nearest(measured: Measured) -> Point:
    """The point of a cell that comes nearest to the paper's figures."""
    return min(points(measured), key=lambda point: point.lacks)
