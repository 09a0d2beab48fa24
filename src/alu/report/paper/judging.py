"""Judges: what became of each of the paper's claims, from the cells that were measured for it."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median

from alu.evaluation.intervals import Share
from alu.report.paper import published
from alu.report.paper.findings import explained
from alu.report.paper.results import Results, share, where
from alu.report.paper.shape import percent

HOLDS = "holds"
OBLIVIOUS = "holds only for attackers who do not know the defence"
FAILS = "does not hold"
UNKNOWN = "not measured yet"


@dataclass(frozen=True)
class Verdict:
    """What became of a claim, and the numbers it follows from."""

    verdict: str
    evidence: str


def _above(values: list[float], threshold: float) -> Share:
    return Share(sum(value > threshold for value in values), len(values))


def _sure(first: Share, second: Share) -> bool:
    """Whether the first share is surely above the second: their intervals do not meet."""
    return first.interval[0] > second.interval[1]


def overlap(results: Results) -> Verdict:
    """Test images above the threshold of training images."""
    cells, mark = results.cells("histogram"), results.found("histogram", "thresholds")
    worst, parts = 0.0, []
    for reading in ("input", "reconstruction"):
        found = _above(cells["clean"][reading], mark[reading]["train"])
        worst = max(worst, found.interval[0])
        parts.append(f"{reading}: {percent(found)} of test images lie above the 99.5 % quantile of training images")
    return Verdict(HOLDS if worst <= 0.01 else FAILS, "; ".join(parts) + ". At most 1 % was asked for.")


def separable(results: Results) -> Verdict:
    """Attacked images above the held-out threshold."""
    cells, mark = results.cells("histogram"), results.found("histogram", "thresholds")
    parts, caught = [], {}
    for reading in ("input", "reconstruction"):
        for kind in ("pgd-20 on f", "pgd-20 on f(D(E))"):
            found = _above(cells[kind][reading], mark[reading]["held out"])
            caught[reading, kind] = found.value
            parts.append(f"{kind}, {reading}: {percent(found)} flagged")
    if min(caught.values()) >= 0.9:
        return Verdict(HOLDS, "; ".join(parts) + ".")
    oblivious = caught["input", "pgd-20 on f"] >= 0.9
    return Verdict(OBLIVIOUS if oblivious else FAILS, "; ".join(parts) + ". At least 90 % was asked for.")


def survives_autoattack(results: Results) -> Verdict:
    """AutoAttack's images above the held-out threshold."""
    cells, mark = results.cells("histogram"), results.found("histogram", "thresholds")
    found = _above(cells["autoattack on f"]["input"], mark["input"]["held out"])
    pgd = _above(cells["pgd-20 on f"]["input"], mark["input"]["held out"])
    words = f"Input reading: AutoAttack on f {percent(found)} flagged, PGD-20 on f {percent(pgd)}. 90 % was asked for."
    return Verdict(OBLIVIOUS if found.value >= 0.9 else FAILS, words)


def others_stay(results: Results) -> Verdict:
    """How far the logits of other classes move."""
    found = results.found("logit-change", "cifar10-standard/pgd-20")
    others, own = fmean(found["others, mean size"]), abs(fmean(found["true"]))
    words = (
        f"PGD-20 on the standard classifier: other logits move by {others:.2f} on average, the true one by {own:.2f}"
    )
    return Verdict(
        HOLDS if others <= 0.25 * own else FAILS, f"{words} ({100 * others / own:.0f} %; at most 25 % was asked for)."
    )


def true_falls(results: Results) -> Verdict:
    """How often the true logit falls most."""
    parts, least = [], 1.0
    for name in ("pgd-20", "cw-linf", "autoattack"):
        found = share(results.found("logit-change", f"cifar10-standard/{name}")["true falls most"])
        parts.append(f"{name}: {percent(found)}")
        least = min(least, found.interval[1])
    words = "; ".join(parts) + f". The paper: {100 * published.TRUE_FALLS_MOST:.2f} %; at least 95 % was asked for."
    return Verdict(HOLDS if least >= 0.95 else FAILS, words)


def fifty(results: Results) -> Verdict:
    """What 200 steps give beyond 60."""
    found = results.found("iterations", "encoder")["pgd-20 on f(D(E))"]
    near, far = (share(found[count]["reconstruction"]["all flagged"]) for count in ("60", "200"))
    deployed = [share(found[count]["reconstruction"]["alu"]) for count in ("60", "200")]
    words = (
        f"PGD-20 on f(D(E)), reconstruction, if all were flagged: N = 60 {percent(near)}, N = 200 {percent(far)}; "
        f"deployed {percent(deployed[0])} and {percent(deployed[1])}. At most 3 points of gain were asked for in each."
    )
    close = max(far.value - near.value, deployed[1].value - deployed[0].value) <= 0.03
    return Verdict(HOLDS if close else FAILS, words)


def small_rate(results: Results) -> Verdict:
    """The smallest rate beside the best one."""
    cells, parts, falling = results.cells("learning-rate"), [], []
    for solver, objective in (("gd", "sse"), ("gd", "mse"), ("gd", "norm"), ("adam", "sse")):
        by = {}
        for key, found in cells.items():
            if key.startswith(f"{solver}, {objective}, "):
                (row,) = found["pgd-20 on f(D(E))"].values()
                by[float(key.rsplit(", ", 1)[1])] = share(row["reconstruction"]["all flagged"])
        small, best = by[min(by)], max(by.values(), key=lambda one: one.value)
        rate = next(rate for rate, value in by.items() if value == best)
        falling.append(not _sure(best, small))
        parts.append(
            f"{solver}, {objective}: {100 * small.value:.0f} % at {min(by):g}, best {percent(best)} at {rate:g}"
        )
    return Verdict(
        HOLDS if all(falling) else FAILS, "If all were flagged, PGD-20 on f(D(E)): " + "; ".join(parts) + "."
    )


def above_clean(results: Results) -> Verdict:
    """Accuracy on attacked and on clean images."""
    split = results.found("artefacts", "E1 and E5")
    clean, attacked = (share(split[kind]["input"]["alu"]) for kind in ("clean", "attacked"))
    words = f"Input reading, PGD-20 on f: clean {percent(clean)}, attacked {percent(attacked)} (paper protocol)"
    union = results.found("table2", "cifar10-standard/adaptive, input")
    if union:
        words += f"; under the adaptive suite {percent(share(union['adaptive']))} (standard protocol)"
    return Verdict(OBLIVIOUS if attacked.value > clean.value else FAILS, words + ".")


def several_attacks(results: Results) -> Verdict:
    """The gain on PGD-20 and on AutoAttack."""
    parts, least = [], 1.0
    for name in ("pgd-20 on f", "autoattack on f"):
        found = results.found("table2", f"cifar10-standard/{name}")
        gain = share(found["input"]["alu"])
        least = min(least, gain.value - share(found["bare"]).value)
        parts.append(f"{name}: bare {percent(share(found['bare']))}, ALU {percent(gain)}")
    union = share(results.found("table2", "cifar10-standard/adaptive, input")["adaptive"])
    known = OBLIVIOUS if union.value < 0.1 else HOLDS
    words = "; ".join(parts) + f"; adaptive union {percent(union)}. At least 50 points' gain on each was asked for."
    return Verdict(known if least >= 0.5 else FAILS, words)


def helps_robust(results: Results) -> Verdict:
    """The gain on the adversarially trained classifier."""
    key = "cifar10-at"
    bare = results.found("table2", f"{key}/adaptive, bare")["adaptive"]
    parts, gains = [f"adaptive union, bare: {percent(share(bare))}"], []
    for reading in ("input", "reconstruction"):
        union = results.found("table2", f"{key}/adaptive, {reading}")["adaptive"]
        gains.append(_sure(share(union), share(bare)))
        parts.append(f"with ALU, {reading}: {percent(share(union))}")
    clear = False
    for on in ("f", "f(D(E))"):
        found = results.found("table2", f"{key}/pgd-20 on {on}")
        alone, with_alu = share(found["bare"]), share(found["reconstruction"]["alu"])
        clear = clear or _sure(with_alu, alone)
        parts.append(f"PGD-20 on {on}: bare {percent(alone)}, ALU {percent(with_alu)}")
    return Verdict(HOLDS if any(gains) else OBLIVIOUS if clear else FAILS, "; ".join(parts) + ".")


def unified_better(results: Results) -> Verdict:
    """Unified beside plug-in."""
    parts, better = [], []
    for column in ("clean", "pgd-20 on f", "pgd-20 on f(D(E))"):
        two = [share(results.found("table2", f"cifar10-{name}/{column}")["reconstruction"]["alu"])
               for name in ("unified", "standard")]  # fmt: skip
        better.append(two[0].value > two[1].value)
        parts.append(f"{column}: unified {percent(two[0])}, plug-in {percent(two[1])}")
    unions = [share(results.found("table2", f"cifar10-{name}/adaptive, reconstruction")["adaptive"])
              for name in ("unified", "standard")]  # fmt: skip
    parts.append(f"adaptive union: unified {percent(unions[0])}, plug-in {percent(unions[1])}")
    verdict = FAILS
    if all(better):
        verdict = HOLDS if _sure(*unions) else OBLIVIOUS
    return Verdict(verdict, "; ".join(parts) + ".")


def pattern_weak(results: Results) -> Verdict:
    """Success and cost of attacks that hold the true logit up."""
    two = [results.found("pattern-cost", f"cifar10-standard/{name}") for name in ("pgd", "pattern")]
    hit = [share(where(found["fooled"], found["right clean"])) for found in two]
    third = share(where(two[1]["case 3"], two[1]["right clean"]))
    cost = two[1]["backwards"] / two[0]["backwards"]
    words = (
        f"Fooled: PGD {percent(hit[0])}, pattern-violating {percent(hit[1])}, in case 3 {percent(third)}; "
        f"it takes {cost:.1f} times the gradients. Weak would be a share of case 3 surely below PGD's."
    )
    return Verdict(HOLDS if _sure(hit[0], third) and cost > 1 else FAILS, words)


def asymmetry(results: Results) -> Verdict:
    """What is left of the asymmetric system."""
    parts = []
    for name in ("unified, reconstruction", "asymmetric, reconstruction"):
        clean, bpda, through = (
            share(results.found("bpda", f"{name}/{column}")["outcome"])
            for column in ("clean", "bpda-eot", "surrogate pgd")
        )
        parts.append(f"{name}: clean {percent(clean)}, BPDA-EOT {percent(bpda)}, surrogate {percent(through)}")
    union = results.found("bpda", "asymmetric, reconstruction/adaptive")
    parts.append(f"asymmetric, adaptive union {percent(share(union['adaptive']))}")
    stopped = share(union["adaptive"]).value >= 0.5
    return Verdict(HOLDS if stopped else FAILS, "; ".join(parts) + ".")


def hard_samples(results: Results) -> Verdict:
    """Images that were wrong clean, and whose label ALU follows."""
    split, swapped = results.found("artefacts", "E1 and E5"), results.found("artefacts", "E2")
    answer, before = split["attacked"]["input"]["alu"], split["clean"]["bare"]
    wrong = share(where(answer, before, "0"))
    follow = share(swapped["answer is the swapped label"])
    words = (
        f"Of the images the classifier gets wrong clean, {percent(wrong)} are right under attack; but told another "
        f"label, the same attack makes ALU answer that label on {percent(follow)}: it reads what the attacker wrote."
    )
    return Verdict(FAILS if follow.value >= 0.5 else HOLDS, words)


def approaches(results: Results) -> Verdict:
    """The distance to the clean image against N."""
    found = results.found("convergence", "pgd-20 on f(D(E))")["by N"]
    counts = list(found)
    first, last = (fmean(found[count]["to clean"]) for count in (counts[0], counts[-1]))
    near = [fmean(found[count]["to attacked"]) for count in (counts[0], counts[-1])]
    words = (
        f"Root mean square distance from N = 0 to {counts[-1]}: to the clean image {first:.4f} to {last:.4f}, to the "
        f"attacked one {near[0]:.4f} to {near[1]:.4f}"
    )
    closer = last < first and last < near[1]
    return Verdict(
        HOLDS if closer else FAILS, words + ". To hold, it must end nearer to the clean image than it began."
    )


def equation(results: Results) -> Verdict:
    """How much of a logit's change the non-robust features carry."""
    parts, fits = [], []
    row = results.found("features", "cifar10-standard")["kept"]["0.8"]
    for logit in ("true", "adversarial"):
        fit = explained(row[logit]["non-robust"], row[logit]["all"])
        carried = fmean(row[logit]["non-robust"]) / fmean(row[logit]["all"])
        fits.append(fit >= 0.8 and 0.8 <= carried <= 1.2)
        parts.append(f"{logit} logit: non-robust features carry {100 * carried:.0f} % of the change, R² {fit:.2f}")
    return Verdict(HOLDS if all(fits) else FAILS, "; ".join(parts) + ". 80 to 120 % and an R² of 0.8 were asked for.")


def one_step(results: Results) -> Verdict:
    """The error after one step, and the rate's sign."""
    one, ten = (results.found("one-step", f"{outputs} outputs") for outputs in (1, 10))
    worst = max(one["error after"])
    positive = Share(sum(rate > 0 for rate in one["rate"]), one["n"])
    left = median(after / before for before, after in zip(ten["error before"], ten["error after"], strict=True))
    words = (
        f"One linear output: the largest error after the step is {worst:.1g}, but the rate needs the true label and is "
        f"positive in {percent(positive)}, not always; ten outputs: {100 * left:.0f} % of the error stays."
    )
    return Verdict(FAILS if positive.value < 0.99 or left > 0.01 else HOLDS, words)
