"""What was said of the latent steps: how many, and how large."""

from __future__ import annotations

from alu.report.paper.judging import Verdict, at_least, better, whole
from alu.report.paper.results import MissingCellError, Results, share
from alu.report.paper.shape import percent


def fifty(results: Results) -> Verdict:
    """What 200 steps give beyond 50."""
    cell = results.need("iterations", "encoder")
    found = cell["pgd-20 on f(D(E))"]
    if "50" not in found or "200" not in found:
        raise MissingCellError("iterations")
    parts, converged = [], []
    for kind, name in (("all flagged", "if all were flagged"), ("alu", "deployed")):
        near, far = (found[count]["reconstruction"][kind] for count in ("50", "200"))
        gain = better(far, near)
        converged.append(not (gain and share(far).value - share(near).value > 0.03))
        parts.append(f"{name}: N = 50 {percent(share(near))}, N = 200 {percent(share(far))}")
    useful = at_least(share(found["50"]["reconstruction"]["all flagged"]), 0.2)
    words = f"PGD-20 on f(D(E)), reconstruction, encoder start, {cell['solver']}; " + "; ".join(parts)
    rule = ". To hold: no more than 3 points are gained after 50 steps, and what is there is above chance."
    return Verdict(whole([*converged, useful]), words + rule)


def small_rate(results: Results) -> Verdict:
    """The smallest rate beside the best one."""
    cells, parts, found = results.cells("learning-rate"), [], []
    for setting in ("gd, sse", "gd, mse", "gd, norm", "adam, sse"):
        by = {}
        for key, cell in cells.items():
            if key.startswith(f"{setting}, "):
                (row,) = cell["pgd-20 on f(D(E))"].values()
                by[float(key.rsplit(", ", 1)[1])] = row["reconstruction"]["all flagged"]
        if len(by) < 2:
            raise MissingCellError("learning-rate")
        rate = max(by, key=lambda one: share(by[one]).value)
        worse = better(by[rate], by[min(by)])
        found.append(
            not worse if worse is not None else share(by[rate]).value - share(by[min(by)]).value <= 0.03 or None
        )
        parts.append(
            f"{setting}: {percent(share(by[min(by)]))} at {min(by):g}, best {percent(share(by[rate]))} at {rate:g}"
        )
    words = "PGD-20 on f(D(E)), reconstruction, if all were flagged; " + "; ".join(parts)
    return Verdict(whole(found), words + ". To hold: no larger rate is better, whatever the solver and objective.")
