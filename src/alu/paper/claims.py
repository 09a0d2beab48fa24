"""Claims of the paper and the verdicts on them, from the cells that were measured. Nothing is typed by hand.

A bound holds only if the whole 95 % interval is on its side, and fails only if the whole interval is on the other; two
answers on the same images are compared by the sign test. In between there are too few images to tell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from alu.paper.store import MissingCellError, Reading, Results
from alu.stats import Estimate, Share, mean_difference, sign_test

Finding = bool | None
"""Whether something is so; None where there are too few images to tell."""


class Status(StrEnum):
    """What became of a claim."""

    HOLDS = "holds"
    OBLIVIOUS = "holds only against attackers who do not know the defence"
    FAILS = "does not hold"
    FEW = "too few images to tell"
    UNKNOWN = "not measured yet"


HOLDS, OBLIVIOUS, FAILS, FEW, UNKNOWN = Status


@dataclass(frozen=True)
class Verdict:
    """What became of a claim, and the numbers and the rule it follows from."""

    status: Status
    figures: Sequence[str]
    """What was measured, one line for each figure."""
    rule: str = ""
    """What was asked for, as a sentence, and which attack is missing; nothing where nothing was measured."""
    limit: str = ""
    """The one case that the verdict is about, such as "In the input reading only"; nothing where it is about all."""
    experiments: tuple[str, ...] = ()
    """The experiments whose cells it follows from."""

    @property
    def lines(self) -> list[str]:
        """The limit and the figures."""
        return [*([self.limit] if self.limit else []), *self.figures]

    def unless_incomplete(self, stamps: Iterable[str]) -> Verdict:
        """The same with the first stamp: a union from which an attack is missing proves nothing for a defence."""
        stamp = next(filter(None, stamps), "")
        status = FEW if stamp and self.status is HOLDS else self.status
        return replace(self, status=status, rule=self.rule + stamp)


@dataclass(frozen=True)
class Claim:
    """Something the paper says, and the function that decides whether it holds."""

    name: str
    says: str
    decide: Callable[[Results], Verdict]

    def __call__(self, results: Results) -> Verdict:
        """The verdict, if all cells are there."""
        return self.decide(results)

    @property
    def anchor(self) -> str:
        """Where it stands on the page."""
        return "claim-" + re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")

    def verdict(self, results: Results, experiment: str) -> Verdict:
        """The verdict, or that cells are missing; `experiment` is the one that the claim belongs to."""
        read = Results(results.experiments)
        try:
            verdict = self.decide(read)
        except MissingCellError as missing:
            verdict = Verdict(UNKNOWN, [f"Not measured: {missing}"])
        else:
            if read.used & results.quick:
                first = f"Quick form only, with too few images; it says: {verdict.status}"
                verdict = replace(verdict, status=FEW, figures=[first, *verdict.figures])
        return replace(verdict, experiments=(experiment, *sorted(read.used - {experiment})))


def claim(name: str, says: str) -> Callable[[Callable[[Results], Verdict]], Claim]:
    """Makes the function below it a claim of the paper."""
    return lambda decide: Claim(name, says, decide)


def at_least(figure: Share | Estimate, bound: float) -> Finding:
    """Whether a figure is surely at least the bound; None if its interval holds the bound."""
    low, high = figure.interval
    return True if low >= bound else False if high < bound else None


def at_most(figure: Share | Estimate, bound: float) -> Finding:
    """Whether a figure is surely at most the bound."""
    low, high = figure.interval
    return True if high <= bound else False if low > bound else None


def gain(first: str, second: str) -> Estimate:
    """By what share of the same images the first of two answers is right more often."""
    n = min(len(first), len(second))
    return mean_difference(*([float(digit == "1") for digit in digits[:n]] for digits in (first, second)))


def better(first: str, second: str) -> Finding:
    """Whether the first of two answers on the same images is right more often (sign test, 5 %)."""
    only = [sum(a == "1" != b for a, b in zip(*pair, strict=True)) for pair in ((first, second), (second, first))]
    if sign_test(*only) >= 0.05:
        return None
    return only[0] > only[1]


def ahead(first: str, second: str) -> Finding:
    """The same of two unions, of which nothing may be left: if neither keeps any image, there is no lead."""
    return better(first, second) if "1" in first + second else False


def compared(first: str, second: str) -> str:
    """What `better` says, in words."""
    return {True: "better", False: "worse", None: "no significant difference"}[better(first, second)]


def every(findings: Iterable[Finding], then: Status = HOLDS, otherwise: Status = FAILS) -> Status:
    """One status from several findings that must all be true."""
    known = list(findings)
    if False in known:
        return otherwise
    return FEW if None in known else then


def by_attacker(adaptive: Iterable[Finding], oblivious: Iterable[Finding]) -> Status:
    """What holds against every attacker, else what holds against those who do not know the defence."""
    oblivious = list(oblivious)
    return every([*adaptive, *oblivious], otherwise=every(oblivious, OBLIVIOUS))


def best_case(statuses: Mapping[Any, Status], figures: Sequence[str], rule: str) -> Verdict:
    """The verdict of the reading or classifier on which a claim fares best, named if another says otherwise."""
    best = min(statuses.values(), key=(HOLDS, OBLIVIOUS, FEW, FAILS).index)
    cases = [case for case, status in statuses.items() if status == best]
    limit = "In the {} reading only" if isinstance(cases[0], Reading) else "On {} only"
    return Verdict(best, figures, rule, "" if len(cases) == len(statuses) else limit.format(" and ".join(cases)))
