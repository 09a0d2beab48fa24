"""Judges: what became of each of the paper's claims, from the cells that were measured for it.

A bound holds only if the whole 95 % interval is on its side, and fails only if the whole interval is on the other; two
answers on the same images are compared by the sign test. In between there are too few images to tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from alu.evaluation.intervals import Share
from alu.evaluation.metrics import sign_test
from alu.evaluation.resampling import Estimate, lead

HOLDS = "holds"
OBLIVIOUS = "holds only for attackers who do not know the defence"
FAILS = "does not hold"
FEW = "too few images to tell"
UNKNOWN = "not measured yet"
RULE = "To hold"


@dataclass(frozen=True)
class Verdict:
    """What became of a claim, and the numbers and the rule it follows from."""

    verdict: str
    evidence: str
    """Figures with "; " between them, then a sentence that begins with "To hold" and says what was asked for."""
    read: tuple[str, ...] = ()
    """The experiments it follows from."""

    @property
    def figures(self) -> list[str]:
        """The evidence, one figure after the other."""
        return [part.strip().rstrip(".;") for part in re.split(r"; |(?<=only)\. ", self.evidence.partition(RULE)[0])]

    @property
    def limit(self) -> str:
        """The one case that the verdict is about, as `best_case` words it; nothing where it is about all."""
        first = self.figures[0]
        return first if first.endswith(" only") else ""

    @property
    def rule(self) -> str:
        """What was asked for, and what a union lacks; nothing where nothing was measured."""
        _, begins, rest = self.evidence.partition(RULE)
        return begins + rest


def at_least(found: Share | Estimate, bound: float) -> bool | None:
    """Whether a figure is surely at least the bound; None if its interval holds the bound."""
    low, high = found.interval
    return True if low >= bound else False if high < bound else None


def at_most(found: Share | Estimate, bound: float) -> bool | None:
    """Whether a figure is surely at most the bound."""
    low, high = found.interval
    return True if high <= bound else False if low > bound else None


def gain(first: str, second: str) -> Estimate:
    """By what share of the same images the first of two answers is right more often."""
    return lead([float(digit == "1") for digit in first], [float(digit == "1") for digit in second])


def better(first: str, second: str) -> bool | None:
    """Whether the first of two answers on the same images is right more often (sign test, 5 %)."""
    only = [sum(a == "1" != b for a, b in zip(*pair, strict=True)) for pair in ((first, second), (second, first))]
    if sign_test(*only) >= 0.05:
        return None
    return only[0] > only[1]


def ahead(first: str, second: str) -> bool | None:
    """The same of two unions, of which nothing may be left: two of nothing are equal, and that is no lead."""
    return better(first, second) if "1" in first + second else False


def first_of(strict: Iterable[bool | None], lenient: Iterable[bool | None]) -> str:
    """What holds for every attacker, else what holds for those who do not know the defence."""
    lenient = list(lenient)
    return whole([*strict, *lenient], otherwise=whole(lenient, OBLIVIOUS))


def best_case(found: Mapping[str, str], only: str) -> tuple[str, str]:
    """The verdict of the case in which a claim fares best, and where another says otherwise a word on which it is."""
    best = min(found.values(), key=(HOLDS, OBLIVIOUS, FEW, FAILS).index)
    where = [case for case, verdict in found.items() if verdict == best]
    return best, "" if len(where) == len(found) else only.format(" and ".join(where)) + " only. "


def by_reading(found: Mapping[str, str]) -> tuple[str, str]:
    """The verdict of the reading in which a claim fares best."""
    return best_case(found, "In the {} reading")


def by_classifier(found: Mapping[str, str]) -> tuple[str, str]:
    """The verdict of the classifier on which a claim fares best."""
    return best_case(found, "On {}")


def whole(parts: Iterable[bool | None], then: str = HOLDS, otherwise: str = FAILS) -> str:
    """One verdict from several findings that must all be true."""
    found = list(parts)
    if False in found:
        return otherwise
    return FEW if None in found else then
