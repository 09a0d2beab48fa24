"""Judges: what became of each of the paper's claims, from the cells that were measured for it.

A bound holds only if the whole 95 % interval is on its side, and fails only if the whole interval is on the other; two
answers on the same images are compared by the sign test. In between there are too few images to tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from alu.evaluation.intervals import Share
from alu.evaluation.metrics import sign_test
from alu.evaluation.resampling import Estimate, explained, lead, mean, ratio
from alu.report.paper import published
from alu.report.paper.artefacts import unlikely
from alu.report.paper.results import MissingCellError, Results, share, where
from alu.report.paper.shape import percent

HOLDS = "holds"
OBLIVIOUS = "holds only for attackers who do not know the defence"
FAILS = "does not hold"
FEW = "too few images to tell"
UNKNOWN = "not measured yet"


@dataclass(frozen=True)
class Verdict:
    """What became of a claim, and the numbers and the rule it follows from."""

    verdict: str
    evidence: str


def at_least(found: Share | Estimate, bound: float) -> bool | None:
    """Whether a share is surely at least the bound; None if its interval holds the bound."""
    low, high = found.interval
    return True if low >= bound or found.value == 1.0 else False if high < bound else None


def at_most(found: Share | Estimate, bound: float) -> bool | None:
    """Whether a share is surely at most the bound."""
    low, high = found.interval
    return True if high <= bound or found.value == 0.0 else False if low > bound else None


def better(first: str, second: str) -> bool | None:
    """Whether the first of two answers on the same images is right more often (sign test, 5 %)."""
    only = [sum(a == "1" != b for a, b in zip(*pair, strict=True)) for pair in ((first, second), (second, first))]
    if sign_test(*only) >= 0.05:
        return None
    return only[0] > only[1]


def whole(parts: Iterable[bool | None], then: str = HOLDS, otherwise: str = FAILS) -> str:
    """One verdict from several findings that must all be true."""
    found = list(parts)
    if False in found:
        return otherwise
    return FEW if None in found else then


def _above(values: Sequence[float], threshold: float) -> Share:
    return Share(sum(value > threshold for value in values), len(values))


def _informed(results: Results, reading: str = "input") -> Share:
    """What the bundled defence keeps against an attacker who knows it."""
    return share(results.need("threats", f"{reading}/adaptive")["adaptive"])


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


def above_clean(results: Results) -> Verdict:
    """Accuracy on attacked and on clean images."""
    split = results.need("artefacts", "E1 and E5")
    clean, attacked = (split[kind]["input"]["alu"] for kind in ("clean", "attacked"))
    union = _informed(results)
    words = (
        f"Input reading, paper protocol: clean {percent(share(clean))}, under PGD-20 on f "
        f"{percent(share(attacked))}; an "
        f"attacker who knows the defence leaves {percent(union)}. To hold: more right attacked than clean, by the sign "
        "test; for all attackers, that union too."
    )
    informed = union.value > share(clean).value
    return Verdict(whole([better(attacked, clean)], HOLDS if informed else OBLIVIOUS), words)


def hard_samples(results: Results) -> Verdict:
    """Images that were wrong clean, and whose label ALU follows."""
    split, swapped = results.need("artefacts", "E1 and E5"), results.need("artefacts", "E2")
    answer, before = split["attacked"]["input"]["alu"], split["clean"]["bare"]
    wrong, follow = share(where(answer, before, "0")), share(unlikely(swapped))
    words = (
        f"Of the images the classifier gets wrong clean, {percent(wrong)} are right under attack; but told another "
        "label, one that the clean logits rank among the last five and nobody would confuse, the same attack makes "
        f"ALU answer it on {percent(follow)}: it reads what the attacker wrote. To hold: such a label is followed on "
        "at most 10 %."
    )
    return Verdict(whole([at_most(follow, 0.1)]), words)


def several_attacks(results: Results) -> Verdict:
    """The gain on PGD-20 and on AutoAttack, and what is left of it."""
    parts, gains = [], []
    for name in ("pgd-20 on f", "autoattack on f"):
        found = results.need("table2", f"cifar10-standard/{name}")
        bare, alu = share(found["bare"]), share(found["input"]["alu"])
        gains.append(alu.interval[0] - bare.interval[1] >= 0.5)
        parts.append(f"{name}: bare {percent(bare)}, ALU {percent(alu)}")
    union, alone = (share(results.standing("cifar10-standard", reading)) for reading in ("input", "bare"))
    kept = union.value - alone.value >= 0.5
    words = "; ".join(parts) + f"; every attack together: bare {percent(alone)}, ALU {percent(union)}"
    rule = ". To hold: a gain of at least 50 points on each, input reading; for all attackers, on the union too."
    return Verdict(whole(gains, HOLDS if kept else OBLIVIOUS), words + rule)


def helps_robust(results: Results) -> Verdict:
    """The gain on the adversarially trained classifier."""
    key = "cifar10-at"
    bare = results.standing(key, "bare")
    parts, gains = [f"every attack together: bare {percent(share(bare))}"], []
    for reading in ("input", "reconstruction"):
        union = results.standing(key, reading)
        n = min(len(union), len(bare))
        gains.append(better(union[:n], bare[:n]) is True)
        parts.append(f"with ALU, {reading} {percent(share(union))}")
    clear = False
    for on in ("f", "f(D(E))"):
        found = results.need("table2", f"{key}/pgd-20 on {on}")
        for reading in ("input", "reconstruction"):
            clear = clear or better(found[reading]["alu"], found["bare"]) is True
        alone, with_alu = share(found["bare"]), share(found["reconstruction"]["alu"])
        parts.append(f"PGD-20 on {on}: bare {percent(alone)}, ALU (reconstruction) {percent(with_alu)}")
    rule = ". To hold: ALU is right more often than the bare classifier, by the sign test, in one of the readings."
    return Verdict(HOLDS if any(gains) else OBLIVIOUS if clear else FAILS, "; ".join(parts) + rule)


def unified_better(results: Results) -> Verdict:
    """Unified beside plug-in, on the same images."""
    parts, found = [], []
    for column in ("clean", "pgd-20 on f", "pgd-20 on f(D(E))"):
        two = [results.need("table2", f"cifar10-{name}/{column}")["reconstruction"]["alu"]
               for name in ("unified", "standard")]  # fmt: skip
        found.append(better(*two))
        parts.append(f"{column}: unified {percent(share(two[0]))}, plug-in {percent(share(two[1]))}")
    unions = [results.standing(f"cifar10-{name}", "reconstruction") for name in ("unified", "standard")]
    n = min(map(len, unions))
    kept = better(unions[0][:n], unions[1][:n]) is True
    parts.append(f"every attack together: unified {percent(share(unions[0]))}, plug-in {percent(share(unions[1]))}")
    rule = ". Reconstruction reading. To hold: better by the sign test in each column; for all attackers, together too."
    return Verdict(whole(found, HOLDS if kept else OBLIVIOUS), "; ".join(parts) + rule)


def pattern_weak(results: Results) -> Verdict:
    """Success and cost of attacks that hold the true logit up."""
    two = [results.need("pattern-cost", f"cifar10-standard/{name}") for name in ("pgd", "pattern")]
    right = two[0]["right clean"]
    hit, third = where(two[0]["fooled"], right), where(two[1]["case 3"], right)
    cost = two[1]["backwards"] / two[0]["backwards"]
    weaker = better(hit, third)
    words = (
        f"Of images right clean PGD fools {percent(share(hit))}; held to the paper's case 3, {percent(share(third))} "
        "are "
        f"fooled, at {cost:.1f} times the gradients. To hold: fewer by the sign test and by more than 10 points, and "
        "more than twice the gradients."
    )
    clearly = weaker is True and share(hit).value - share(third).value > 0.1
    return Verdict(HOLDS if clearly and cost > 2 else FAILS, words)


def asymmetry(results: Results) -> Verdict:
    """BPDA-EOT on the symmetric and on the asymmetric system, and what an informed attacker leaves."""
    parts, left = [], {}
    for system in ("unified", "asymmetric"):
        clean, bpda, through = (
            share(results.need("bpda", f"{system}, reconstruction/{column}")["outcome"])
            for column in ("clean", "bpda-eot", "surrogate pgd")
        )
        left[system] = at_least(bpda, 0.5 * clean.value)
        parts.append(f"{system}: clean {percent(clean)}, BPDA-EOT {percent(bpda)}, surrogate {percent(through)}")
    union = share(results.need("bpda", "asymmetric, reconstruction/adaptive")["adaptive"])
    parts.append(f"asymmetric, every attack together {percent(union)}")
    verdict = whole([left["asymmetric"]], HOLDS if at_least(union, 0.5) else OBLIVIOUS)
    rule = (
        ". To hold: half of the clean answers survive BPDA-EOT on the asymmetric system, and half of all every attack."
    )
    return Verdict(verdict, "; ".join(parts) + rule)


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
