"""What was said of other test-time methods."""

from __future__ import annotations

from alu.report.paper.judging import FEW, HOLDS, Verdict, ahead, better, by_reading, first_of
from alu.report.paper.results import Results, incomplete, share
from alu.report.paper.shape import percent
from alu.report.paper.table3 import OWN, answer_of, left_of
from alu.report.paper.tables import at

OURS = {"reconstruction": OWN, "input": f"{OWN}, input reading"}
OTHERS = ("Anti-Adversary", "Hedge Defense", "AWP")


def outperforms(results: Results) -> Verdict:
    """Unified ALU in each reading beside each other method of table 3, on the same images. A union of another method
    that was not measured leaves its comparison open; what the others settle is settled."""
    parts, stamp, digits = [], "", {}
    for row in (*OURS.values(), *OTHERS):
        easy = at(results.need("table3", f"{row}/pgd-20 on f"), answer_of(row))
        union = (results.need if row in OURS.values() else results.found)("table3", f"{row}/adaptive")
        digits[row] = easy, left_of(results, row) if union else ""
        stamp = stamp or (incomplete(union) if union else "")
        name = f"{OWN}, reconstruction" if row == OWN else row
        left = percent(share(digits[row][1])) if union else "not measured"
        parts.append(f"{name}: PGD-20 on f {percent(share(easy))}, every attack together {left}")
    verdicts = {}
    for reading, row in OURS.items():
        easy, left = digits[row]
        lenient = [better(easy, digits[other][0]) for other in OTHERS]
        strict = [ahead(left, digits[other][1]) if digits[other][1] else None for other in OTHERS]
        verdicts[reading] = first_of(strict, lenient)
    verdict, only = by_reading(verdicts)
    if verdict == HOLDS and stamp:
        verdict = FEW
    rule = ". To hold: better than each by the sign test under every attack; for the oblivious only, under PGD-20 on f."
    return Verdict(verdict, only + "; ".join(parts) + rule + stamp)
