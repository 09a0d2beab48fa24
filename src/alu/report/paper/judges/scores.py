"""What was said of the score and its threshold."""

from __future__ import annotations

from collections.abc import Sequence

from alu.evaluation.intervals import Share
from alu.report.paper.judging import OBLIVIOUS, Verdict, at_least, at_most, whole
from alu.report.paper.results import Results, share
from alu.report.paper.shape import percent


def _above(values: Sequence[float], threshold: float) -> Share:
    return Share(sum(value > threshold for value in values), len(values))


def overlap(results: Results) -> Verdict:
    """Test images above the threshold of training images."""
    parts, found = [], []
    for reading in ("input", "reconstruction"):
        mark = results.threshold(reading, "train")
        above = _above(results.need("histogram", "clean")[reading], mark)
        found.append(at_most(above, 0.02))
        parts.append(f"{reading}: {percent(above)} of test images lie above the 99.5 % quantile of training images")
    return Verdict(whole(found), "; ".join(parts) + ". To hold: at most 2 % in both readings.")


def separable(results: Results) -> Verdict:
    """Attacked images above the held-out threshold."""
    parts, caught = [], {}
    for reading in ("input", "reconstruction"):
        mark = results.threshold(reading, "held out")
        for kind in ("pgd-20 on f", "pgd-20 on f(D(E))"):
            above = _above(results.need("histogram", kind)[reading], mark)
            caught[reading, kind] = at_least(above, 0.9)
            parts.append(f"{kind}, {reading}: {percent(above)} flagged")
    rule = ". To hold: at least 90 % in every case; for the oblivious only, PGD-20 on f in the input reading."
    verdict = whole(caught.values(), otherwise=whole([caught["input", "pgd-20 on f"]], OBLIVIOUS))
    return Verdict(verdict, "; ".join(parts) + rule)


def survives_autoattack(results: Results) -> Verdict:
    """AutoAttack's images above the held-out threshold, and what an attacker leaves who aims at the detector."""
    mark = results.threshold("input", "held out")
    hard = _above(results.need("histogram", "autoattack on f")["input"], mark)
    stealthy = share(results.need("each-attack", "cifar10-vae, abstain/Stealth")["outcome"].replace("2", "1"))
    known = at_least(stealthy, 0.5)
    verdict = whole([at_least(hard, 0.9), known], otherwise=whole([at_least(hard, 0.9)], OBLIVIOUS))
    words = (
        f"Input reading: {percent(hard)} of the images that AutoAttack on f moved are flagged; under stealth, which "
        "knows "
        f"the threshold, {percent(stealthy)} are flagged or still right. To hold: at least 90 % and 50 %."
    )
    return Verdict(verdict, words)
