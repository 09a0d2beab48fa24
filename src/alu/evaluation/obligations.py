"""Obligations: which attacks the traits of a subject require. An evaluation without one of them is incomplete."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from alu.purifiers.base import Traits

if TYPE_CHECKING:
    from alu.evaluation.suite import Entry

OBLIGATIONS: dict[str, tuple[str, Callable[[Traits], bool]]] = {
    "white-box": ("gradient attack on the deployed output", lambda traits: True),
    "detector": ("attack that aims at the detector", lambda traits: traits.detector),
    "search": ("attack that aims at the search around the image", lambda traits: traits.search),
    "min-max": ("attack on every point of the search around the image", lambda traits: traits.search),
    "unrolled": ("gradient through the search around the image", lambda traits: traits.search),
    "stall": ("attack that makes the search around the image stall", lambda traits: traits.search),
    "confident": ("attack that raises the confidence of a wrong answer", lambda traits: traits.search),
    "mixture": ("attack on the parts of the mixture", lambda traits: traits.mixture),
    "steps": ("attack that follows the purifier's steps", lambda traits: traits.iterative),
    # The steps of a search have no gradient, so that an attacker who follows one may be misled.
    "no-gradient": ("attack without gradients", lambda traits: traits.gradient != "exact" or traits.search),
    "transfer": (
        "transfer attack from simpler or other models",
        lambda traits: traits.gradient != "exact" or traits.search,
    ),
    "draws": ("gradients averaged over random draws", lambda traits: traits.stochastic),
    # No attack can meet this one.
    "batch": ("answer that is independent of the other images in its batch", lambda traits: traits.batch_dependent),
}
"""What is required, as half-sentences after "no", and the traits that require it."""


def unmet(traits: Traits, run: list[Entry]) -> list[str]:
    """Obligations of these traits that none of the attacks that ran meets, as half-sentences."""
    met = {name for entry in run for name in entry.meets}
    return [f"no {what}" for name, (what, required) in OBLIGATIONS.items() if required(traits) and name not in met]
