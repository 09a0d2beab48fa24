"""What was said of logits, features and purified images."""

from __future__ import annotations

from alu.evaluation.intervals import Share
from alu.evaluation.resampling import explained, lead, mean, ratio
from alu.report.paper import published
from alu.report.paper.judging import OBLIVIOUS, Verdict, at_least, at_most, by_classifier, whole
from alu.report.paper.results import CLASSIFIERS, Results, share
from alu.report.paper.shape import percent


def others_stay(results: Results) -> Verdict:
    """How far the logits of other classes move, on each classifier that was measured."""
    parts, found = [], {}
    for classifier in results.measured("logit-change", CLASSIFIERS, "pgd-20"):
        cell = results.need("logit-change", f"{classifier}/pgd-20")
        others, own = cell["others, mean size"], [-change for change in cell["true"]]
        moved = ratio(others, own)
        found[classifier] = whole([at_most(moved, 0.25)])
        parts.append(
            f"{classifier}, PGD-20, {moved.n} successes: other logits move by {mean(others).shown()} on average, the "
            f"true one falls by {mean(own).shown()}: {moved.shown('.0%')} of it"
        )
    verdict, only = by_classifier(found)
    return Verdict(verdict, only + "; ".join(parts) + ". To hold: at most 25 %.")


def true_falls(results: Results) -> Verdict:
    """How often the true logit falls most, on each classifier that was measured."""
    parts, verdicts = [f"The paper, which names no attack: {100 * published.TRUE_FALLS_MOST:.2f}"], {}
    for classifier in results.measured("logit-change", CLASSIFIERS, "pgd-20"):
        found = []
        for name in ("pgd-20", "cw-linf", "autoattack"):
            fell = share(results.need("logit-change", f"{classifier}/{name}")["true falls most"])
            found.append(at_least(fell, 0.95))
            parts.append(f"{classifier}, {name}: {percent(fell)}")
        verdicts[classifier] = whole(found)
    verdict, only = by_classifier(verdicts)
    return Verdict(verdict, only + "; ".join(parts) + ". To hold: at least 95 % of the successes of each attack.")


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
        ". Root mean square. To hold: it ends nearer to the clean image than it began and, which the paper does not "
        "say, nearer than to the attacked."
    )
    return Verdict(whole(found, otherwise=whole(found[:2], OBLIVIOUS)), "; ".join(parts) + rule)


def one_step(results: Results) -> Verdict:
    """The error after one step, and the rate's sign where the appendix's assumptions are met."""
    one = results.need("one-step", "1 outputs")
    fair, ten = (results.need("one-step", f"{outputs} outputs, label of the image") for outputs in (1, 10))
    positive, exists = Share(sum(rate > 0 for rate in fair["rate"]), fair["n"]), share(ten["some rate is right"])
    words = (
        f"One linear output: the largest error after the step is {max(one['error after']):.1g}, with a rate that needs "
        "the true label; where that label is the classifier's own for the image, the rate is positive in "
        f"{percent(positive)}; ten outputs and that label: a positive rate at which the answer is right in one step "
        f"exists in {percent(exists)}. To hold: at least 99 % of each."
    )
    return Verdict(whole([at_least(positive, 0.99), at_least(exists, 0.99)]), words)
