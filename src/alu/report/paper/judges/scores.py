"""What was said of the score and its threshold."""

from __future__ import annotations

from collections.abc import Sequence

from alu.evaluation.intervals import Share
from alu.report.paper.judging import Verdict, at_least, at_most, by_reading, first_of, whole
from alu.report.paper.results import Results, share
from alu.report.paper.shape import percent

READINGS = ("input", "reconstruction")


def _above(values: Sequence[float], threshold: float) -> Share:
    return Share(sum(value > threshold for value in values), len(values))


def overlap(results: Results) -> Verdict:
    """Test images above the threshold of training images."""
    parts, found = [], []
    for reading in READINGS:
        mark = results.threshold(reading, "train")
        above = _above(results.need("histogram", "clean")[reading], mark)
        found.append(at_most(above, 0.02))
        parts.append(f"{reading}: {percent(above)} of test images lie above the 99.5 % quantile of training images")
    return Verdict(whole(found), "; ".join(parts) + ". To hold: at most 2 % in both readings.")


def separable(results: Results) -> Verdict:
    """Attacked images above the held-out threshold."""
    verdict, words = _flagged(results, "pgd-20", "flagged", [])
    rule = ". To hold: at least 90 % of both attacks; for the oblivious only, of PGD-20 on f."
    return Verdict(verdict, words + rule)


def survives_autoattack(results: Results) -> Verdict:
    """AutoAttack's images above the held-out threshold, and what an attacker leaves who aims at the detector."""
    stealthy = share(results.need("each-attack", "cifar10-vae, abstain/Stealth")["outcome"].replace("2", "1"))
    verdict, words = _flagged(results, "autoattack", "of the images it moved are flagged", [at_least(stealthy, 0.5)])
    rule = (
        f"; under stealth, which knows the threshold, {percent(stealthy)} are flagged or still right (input reading). "
        "To hold: at least 90 % and 50 %; for the oblivious only, 90 % of AutoAttack on f."
    )
    return Verdict(verdict, words + rule)


def _flagged(results: Results, attack: str, said: str, strict: list[bool | None]) -> tuple[str, str]:
    """Whether 90 % of an attack on f, and through the VAE, are flagged; `strict` is what all attackers must leave."""
    parts, found = [], {}
    for reading in READINGS:
        mark, caught = results.threshold(reading, "held out"), []
        for kind in (f"{attack} on f", f"{attack} on f(D(E))"):
            above = _above(results.need("histogram", kind)[reading], mark)
            caught.append(at_least(above, 0.9))
            parts.append(f"{kind}, {reading}: {percent(above)} {said}")
        found[reading] = first_of([caught[1], *strict], caught[:1])
    verdict, only = by_reading(found)
    return verdict, only + "; ".join(parts)
