"""Judges: what became of each of the paper's claims, from the cells that were measured for it.

A bound holds only if the whole 95 % interval is on its side, and fails only if the whole interval is on the other; two
answers on the same images are compared by the sign test. In between there are too few images to tell.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from alu.evaluation.intervals import Share
from alu.evaluation.metrics import sign_test
from alu.evaluation.resampling import Estimate

HOLDS = "holds"
OBLIVIOUS = "holds only for attackers who do not know the defence"
FAILS = "does not hold"
FEW = "too few images to tell"
UNKNOWN = "not measured yet"


@dataclass(frozen=True)
class Verdict:
    """What became of a claim, and the numbers and the rule it follows from."""

    verdict: str
    evidence: str


def at_least(found: Share | Estimate, bound: float) -> bool | None:
    """Whether a share is surely at least the bound; None if its interval holds the bound."""
    low, high = found.interval
    return True if low >= bound or found.value == 1.0 else False if high < bound else None


def at_most(found: Share | Estimate, bound: float) -> bool | None:
    """Whether a share is surely at most the bound."""
    low, high = found.interval
    return True if high <= bound or found.value == 0.0 else False if low > bound else None


def better(first: str, second: str) -> bool | None:
    """Whether the first of two answers on the same images is right more often (sign test, 5 %)."""
    only = [sum(a == "1" != b for a, b in zip(*pair, strict=True)) for pair in ((first, second), (second, first))]
    if sign_test(*only) >= 0.05:
        return None
    return only[0] > only[1]


def whole(parts: Iterable[bool | None], then: str = HOLDS, otherwise: str = FAILS) -> str:
    """One verdict from several findings that must all be true."""
    found = list(parts)
    if False in found:
        return otherwise
    return FEW if None in found else then
