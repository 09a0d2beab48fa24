"""What was said of right answers."""

from __future__ import annotations

from alu.evaluation.resampling import Estimate
from alu.report.paper.artefacts import unlikely
from alu.report.paper.judging import (
    FEW,
    HOLDS,
    Verdict,
    ahead,
    at_least,
    at_most,
    better,
    by_reading,
    first_of,
    gain,
    whole,
)
from alu.report.paper.results import MissingCellError, Results, incomplete, share, where
from alu.report.paper.shape import percent

READINGS = ("input", "reconstruction")
WORDS = {True: "better", False: "worse", None: "not told apart"}
"""What the sign test says of the first of two answers."""


def above_clean(results: Results) -> Verdict:
    """Accuracy on attacked and on clean images, all of it by the paper's protocol."""
    split, parts, found = results.need("artefacts", "E1 and E5"), [], {}
    for reading in READINGS:
        clean, attacked = (split[kind][reading]["alu"] for kind in ("clean", "attacked"))
        through = results.need("threats", f"{reading}/surrogate")["attacked"]
        calm, decoy = (results.need("each-attack", f"cifar10-vae, {reading}/{name}")["outcome"]
                       for name in ("clean", "Decoy"))  # fmt: skip
        found[reading] = first_of([better(decoy, calm)], [better(attacked, clean)])
        parts.append(
            f"{reading}: clean {percent(share(clean))}, PGD-20 on f {percent(share(attacked))}, PGD-20 on f(D(E)) "
            f"{percent(share(through))}, decoy, which knows the rule, {percent(share(decoy))}"
        )
    verdict, only = by_reading(found)
    rule = ". To hold: more right attacked than clean, by the sign test; for all attackers, under decoy too."
    return Verdict(verdict, f"{only}Paper protocol, by reading; " + "; ".join(parts) + rule)


def hard_samples(results: Results) -> Verdict:
    """Images that were wrong clean, and whose label ALU follows."""
    split, swapped = results.need("artefacts", "E1 and E5"), results.need("artefacts", "E2")
    answer, before = split["attacked"]["input"]["alu"], split["clean"]["bare"]
    if not unlikely(swapped):
        raise MissingCellError("artefacts, ranks in E2")
    wrong, follow = share(where(answer, before, "0")), share(unlikely(swapped))
    words = (
        f"Of the images the classifier gets wrong clean, {percent(wrong)} are right under attack; but told another "
        "label, one that the clean logits rank among the last five and nobody would confuse, the same attack makes "
        f"ALU answer it on {percent(follow)}: it reads what the attacker wrote. To hold: such a label is followed on "
        "at most 10 %."
    )
    return Verdict(whole([at_most(follow, 0.1)]), words)


def adds_to_denoiser(results: Results) -> Verdict:
    """ALU beside the denoised answer, on the same images under each attack of table 1."""
    parts, found = [], []
    for name in ("pgd-20", "cw-linf", "cw-l2, c fixed", "autoattack"):
        cell = results.need("table1", name)
        alu, denoised = cell["input"]["alu"], cell["purified"]
        told, inside = better(alu, denoised), "l2" not in name
        if inside:
            found.append(told)
        word = WORDS[told] + ("" if inside else ", L2: outside the threat model, not counted")
        parts.append(f"{name}: denoised {percent(share(denoised))}, ALU {percent(share(alu))} ({word})")
    unions = [results.need("table1", f"adaptive, {reading}") for reading in ("input", "purified")]
    left = [str(union["adaptive"]).replace("2", "0") for union in unions]
    kept = ahead(*left)
    parts.append(f"adaptive suite: denoised {percent(share(left[1]))}, ALU {percent(share(left[0]))}")
    rule = ". To hold: better by the sign test under each L∞ attack; for all attackers, under the adaptive suite too."
    stamp = next(filter(None, map(incomplete, unions)), "")
    return _stamped(Verdict(first_of([kept], found), "; ".join(parts) + rule), stamp)


def several_attacks(results: Results) -> Verdict:
    """The gain on PGD-20 and on AutoAttack, and what is left of it."""
    key = "cifar10-standard"
    alone, stamp = results.standing(key, "bare"), results.unfinished(key, "bare")
    gains: dict[str, list[bool | None]] = {reading: [] for reading in READINGS}
    parts, found = [], {}
    for name in ("pgd-20", "autoattack"):
        for on in ("f", "f(D(E))"):
            cell = results.need("table2", f"{key}/{name} on {on}")
            figures = [f"bare {percent(share(cell['bare']))}"]
            for reading in READINGS:
                figures.append(f"ALU, {reading} {percent(share(cell[reading]['alu']))}")
                if on == "f":
                    gains[reading].append(at_least(gain(cell[reading]["alu"], cell["bare"]), 0.5))
            parts.append(f"{name} on {on}: {', '.join(figures)}")
    figures = [f"bare {percent(share(alone))}"]
    for reading in READINGS:
        union = results.standing(key, reading)
        figures.append(f"ALU, {reading} {percent(share(union))}")
        stamp = stamp or results.unfinished(key, reading)
        found[reading] = first_of([at_least(_among(union, alone), 0.5)], gains[reading])
    parts.append(f"every attack together: {', '.join(figures)}")
    verdict, only = by_reading(found)
    rule = ". To hold: a gain of at least 50 points on each attack on f; for all attackers, on the union too."
    return _stamped(Verdict(verdict, only + "; ".join(parts) + rule), stamp)


ROBUST = ("at", "trades", "fat", "gairat", "mart")
LIFT = 0.1
"""What counts as help: the paper reports 21 to 48 points under PGD-20 on CIFAR-10."""


def helps_robust(results: Results) -> Verdict:
    """The gain on every adversarially trained classifier whose row has been measured, the first of them at least."""
    parts, stamps = [], []
    strict: dict[str, list[bool | None]] = {reading: [] for reading in READINGS}
    lenient: dict[str, list[bool | None]] = {reading: [] for reading in READINGS}
    measured = [name for name in ROBUST if results.found("table2", f"cifar10-{name}/adaptive, reconstruction")]
    for name in dict.fromkeys((ROBUST[0], *measured)):
        key = f"cifar10-{name}"
        bare = results.standing(key, "bare")
        said = {"every attack together": [f"bare {percent(share(bare))}"]}
        stamps.append(results.unfinished(key, "bare"))
        for reading in READINGS:
            for on in ("f", "f(D(E))"):
                cell = results.need("table2", f"{key}/pgd-20 on {on}")
                said.setdefault(f"PGD-20 on {on}", [f"bare {percent(share(cell['bare']))}"]).append(
                    f"{reading} {percent(share(cell[reading]['alu']))}"
                )
                if on == "f":  # whose attacker does not know the defence
                    lenient[reading].append(at_least(gain(cell[reading]["alu"], cell["bare"]), LIFT))
            union = results.standing(key, reading)
            stamps.append(results.unfinished(key, reading))
            said["every attack together"].append(f"{reading} {percent(share(union))}")
            strict[reading].append(at_least(_among(union, bare), LIFT))
        parts += [f"{key}, {attack}: {', '.join(figures)}" for attack, figures in said.items()]
    verdict, only = by_reading({reading: first_of(strict[reading], lenient[reading]) for reading in READINGS})
    rule = (
        f". To hold: a gain of at least {100 * LIFT:.0f} points over each bare classifier under every attack "
        "together; for the oblivious only, under PGD-20 on f."
    )
    return _stamped(Verdict(verdict, only + "; ".join(parts) + rule), next(filter(None, stamps), ""))


def unified_better(results: Results) -> Verdict:
    """Unified beside plug-in, on the same images, in both readings."""
    parts, verdicts, names = [], {}, ("cifar10-unified", "cifar10-standard")
    for reading in READINGS:
        found = []
        for column in ("clean", "pgd-20 on f", "pgd-20 on f(D(E))", "autoattack on f(D(E))"):
            two = [results.need("table2", f"{name}/{column}")[reading]["alu"] for name in names]
            found.append(ahead(*two))
            two_said = f"unified {percent(share(two[0]))}, plug-in {percent(share(two[1]))}"
            parts.append(f"{reading}, {column}: {two_said} ({WORDS[better(*two)]})")
        unions = [results.standing(name, reading) for name in names]
        n = min(map(len, unions))
        verdicts[reading] = first_of([ahead(unions[0][:n], unions[1][:n])], found)
        left = f"unified {percent(share(unions[0]))}, plug-in {percent(share(unions[1]))}"
        parts.append(f"{reading}, every attack together: {left}")
    stamps = (results.unfinished(name, reading) for name in names for reading in READINGS)
    verdict, only = by_reading(verdicts)
    rule = ". To hold: better by the sign test in each column; for all attackers, together too."
    return _stamped(Verdict(verdict, only + "; ".join(parts) + rule), next(filter(None, stamps), ""))


def _among(first: str, second: str) -> Estimate:
    """The gain on the images that both were measured on."""
    n = min(len(first), len(second))
    return gain(first[:n], second[:n])


def _stamped(verdict: Verdict, stamp: str) -> Verdict:
    """A union from which an attack is missing proves nothing for a defence."""
    held = verdict.verdict == HOLDS and bool(stamp)
    return Verdict(FEW if held else verdict.verdict, verdict.evidence + stamp)
