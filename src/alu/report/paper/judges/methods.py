"""What was said of other test-time methods."""

from __future__ import annotations

from alu.report.paper.judging import FEW, HOLDS, Verdict, better, first_of
from alu.report.paper.results import Results, incomplete, share
from alu.report.paper.shape import percent
from alu.report.paper.table3 import OWN, answer_of, left_of
from alu.report.paper.tables import at

OTHERS = ("Anti-Adversary", "Hedge Defense", "AWP")


def outperforms(results: Results) -> Verdict:
    """Unified ALU beside each other method of table 3, on the same images."""
    parts, lenient, strict, stamp = [], [], [], ""
    digits = {}
    for row in (OWN, *OTHERS):
        easy = at(results.need("table3", f"{row}/pgd-20 on f"), answer_of(row))
        union = results.need("table3", f"{row}/adaptive")
        digits[row] = easy, left_of(results, row)
        stamp = stamp or incomplete(union)
        two = [percent(share(found)) for found in digits[row]]
        parts.append(f"{row}: PGD-20 on f {two[0]}, every attack together {two[1]}")
    for row in OTHERS:
        (easy, left), (their_easy, theirs) = digits[OWN], digits[row]
        lenient.append(better(easy, their_easy))
        strict.append(better(left, theirs) or False)  # two unions of nothing are equal, and that is no lead
    verdict = first_of(strict, lenient)
    if verdict == HOLDS and stamp:
        verdict = FEW
    rule = ". To hold: better than each by the sign test under every attack; for the oblivious only, under PGD-20 on f."
    return Verdict(verdict, "; ".join(parts) + rule + stamp)
