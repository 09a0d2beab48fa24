"""What was said of logits, features and purified images."""

from __future__ import annotations

from statistics import median

from alu.evaluation.intervals import Share
from alu.evaluation.resampling import explained, lead, mean, ratio
from alu.report.paper import published
from alu.report.paper.judging import OBLIVIOUS, Verdict, at_least, at_most, whole
from alu.report.paper.results import Results, share
from alu.report.paper.shape import percent


def others_stay(results: Results) -> Verdict:
    """How far the logits of other classes move."""
    found = results.need("logit-change", "cifar10-standard/pgd-20")
    others, own = found["others, mean size"], [-change for change in found["true"]]
    moved = ratio(others, own)
    words = (
        f"PGD-20 on the standard classifier, {moved.n} successes: other logits move by {mean(others).shown()} on "
        f"average, the true one falls by {mean(own).shown()}: {moved.shown('.0%')} of it. To hold: at most 25 %."
    )
    return Verdict(whole([at_most(moved, 0.25)]), words)


def true_falls(results: Results) -> Verdict:
    """How often the true logit falls most."""
    parts, found = [], []
    for name in ("pgd-20", "cw-linf", "autoattack"):
        fell = share(results.need("logit-change", f"cifar10-standard/{name}")["true falls most"])
        found.append(at_least(fell, 0.95))
        parts.append(f"{name}: {percent(fell)}")
    paper = f". The paper: {100 * published.TRUE_FALLS_MOST:.2f} %. To hold: at least 95 % under each."
    return Verdict(whole(found), "; ".join(parts) + paper)


def equation(results: Results) -> Verdict:
    """How much of a logit's change the non-robust features carry."""
    parts, fits = [], []
    row = results.need("features", "cifar10-standard")["kept"]["0.8"]
    for logit in ("true", "adversarial"):
        fit, carried = (figure(row[logit]["non-robust"], row[logit]["all"]) for figure in (explained, ratio))
        fits += [at_least(fit, 0.8), at_least(carried, 0.8), at_most(carried, 1.2)]
        said = f"non-robust features carry {carried.shown('.0%')} of the change, R² {fit.shown()}"
        parts.append(f"{logit} logit: {said}")
    n = len(row["true"]["all"])
    rule = f" ({n} successes, a feature is robust if it keeps 80 %). To hold: 80 to 120 % and an R² of at least 0.8."
    return Verdict(whole(fits), "; ".join(parts) + rule)


def approaches(results: Results) -> Verdict:
    """The distance to the clean image against N."""
    parts, found = [], []
    for kind in ("pgd-20 on f", "pgd-20 on f(D(E))"):
        rows = results.need("convergence", kind)["by N"]
        first, *_, last = rows
        ends = [rows[count] for count in (first, last)]
        gained = lead(ends[0]["to clean"], ends[1]["to clean"])
        nearer = lead(ends[1]["to attacked"], ends[1]["to clean"])
        found += [at_least(gained, 0.0), at_least(nearer, 0.0)]
        clean, attacked = ([mean(row[to]).value for row in ends] for to in ("to clean", "to attacked"))
        parts.append(
            f"{kind}, N = 0 to {last}: to the clean image {clean[0]:.4f} to {clean[1]:.4f} (nearer by "
            f"{gained.shown('.4f')}), to the attacked one {attacked[0]:.4f} to {attacked[1]:.4f}"
        )
    rule = (
        ". Root mean square. To hold: it ends nearer to the clean image than it began, and nearer than to the attacked."
    )
    return Verdict(whole(found, otherwise=whole(found[:2], OBLIVIOUS)), "; ".join(parts) + rule)


def one_step(results: Results) -> Verdict:
    """The error after one step, and the rate's sign where the appendix's assumptions are met."""
    one, ten = (results.need("one-step", f"{outputs} outputs") for outputs in (1, 10))
    fair = results.need("one-step", "1 outputs, label of the image")
    positive = Share(sum(rate > 0 for rate in fair["rate"]), fair["n"])
    left = median(after / before for before, after in zip(ten["error before"], ten["error after"], strict=True))
    words = (
        f"One linear output: the largest error after the step is {max(one['error after']):.1g}, with a rate that "
        "needs the "
        "true label; where that label is the classifier's own for the image, the rate is positive in "
        f"{percent(positive)}. "
        f"Ten outputs: {100 * left:.0f} % of the error stays (median). To hold: at least 99 % positive, at most 1 % "
        "left."
    )
    return Verdict(whole([at_least(positive, 0.99), left <= 0.01]), words)
