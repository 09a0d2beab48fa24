"""What was said of the latent steps: how many, and how large."""

from __future__ import annotations

from alu.report.paper.judging import FAILS, Verdict, at_least, at_most, gain, whole
from alu.report.paper.results import MissingCellError, Results, share
from alu.report.paper.shape import percent, points

PAPERS = "cifar10-unified"
"""The classifier of the paper's ablations."""
KINDS = {"all flagged": "if all were flagged", "alu": "deployed"}
CHANCE = 0.1
"""Of ten classes."""
SMALLEST = 1e-4
"""The smallest rate that the paper tried; ours go further down, to where nothing moves."""


def fifty(results: Results) -> Verdict:
    """What 200 steps give beyond 50, and whether 50 give the accuracy and the detection that the paper says they do."""
    cell = results.need("iterations", "encoder")
    found = cell[PAPERS]["pgd-20 on f(D(E))"]
    if "50" not in found or "200" not in found:
        raise MissingCellError("iterations")
    parts, converged = [], []
    for kind, name in KINDS.items():
        near, far = (found[count]["reconstruction"][kind] for count in ("50", "200"))
        more = gain(far, near)
        converged.append(at_most(more, 0.03))
        two = f"N = 50 {percent(share(near))}, N = 200 {percent(share(far))}"
        parts.append(f"{name}: {two}, gained {points(more)}")
    flags = {count: share(found[count]["reconstruction"]["flagged"]) for count in ("50", "200")}
    parts.append("flagged: " + ", ".join(f"N = {count} {percent(flag)}" for count, flag in flags.items()))
    above = bool(at_least(share(found["50"]["reconstruction"]["all flagged"]), CHANCE))
    useful = [above, at_least(flags["50"], 0.5)]
    words = f"{PAPERS}, PGD-20 on f(D(E)), reconstruction, encoder start, {cell['solver']}; " + "; ".join(parts)
    rule = (
        ". To hold: no more than 3 points are gained after 50 steps, at which labels are surely recovered above chance "
        "and at least half of the attacked images are flagged."
    )
    return Verdict(whole([*converged, *useful]), words + rule)


def small_rate(results: Results) -> Verdict:
    """The paper's smallest rate beside the best larger one, wherever ALU works; deployed, and as in its figure."""
    cells, parts, found = results.cells("learning-rate"), [], []
    for setting in ("gd, sse", "gd, mse", "gd, norm", "adam, sse"):
        for kind, name in KINDS.items():
            by = {}
            for key, cell in cells.items():
                rate = float(key.rsplit(", ", 1)[1])
                if key.startswith(f"{setting}, ") and rate >= SMALLEST:
                    (row,) = cell[PAPERS]["pgd-20 on f(D(E))"].values()
                    by[rate] = row["reconstruction"][kind]
            if SMALLEST not in by or len(by) < 2:
                raise MissingCellError("learning-rate")
            best = max((rate for rate in by if rate > SMALLEST), key=lambda one: share(by[one]).value)
            two = f"{percent(share(by[SMALLEST]))} at {SMALLEST:g}, best {percent(share(by[best]))} at {best:g}"
            works = at_least(share(max(by.values(), key=lambda digits: share(digits).value)), CHANCE)
            if works:
                found.append(at_most(gain(by[best], by[SMALLEST]), 0.03))
            parts.append(f"{setting}, {name}: {two}" + ("" if works else " (not above chance: not counted)"))
    words = f"{PAPERS}, PGD-20 on f(D(E)), reconstruction; " + "; ".join(parts)
    rule = ". To hold: wherever ALU is above chance, no larger rate is better by more than 3 points."
    return Verdict(whole(found) if found else FAILS, words + rule)
