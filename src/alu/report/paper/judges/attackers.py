"""What was said of attackers who do something about it."""

from __future__ import annotations

from alu.report.paper.judging import FAILS, FEW, HOLDS, Verdict, at_least, at_most, by_classifier, gain, whole
from alu.report.paper.results import CLASSIFIERS, Results, both, incomplete, share, where
from alu.report.paper.shape import percent, points


def pattern_weak(results: Results) -> Verdict:
    """Success and cost of attacks that hold the true logit up, beside PGD that stops as they do."""
    parts, found = [], {}
    for classifier in results.measured("pattern-cost", CLASSIFIERS, "pattern"):
        plain, held = (
            results.need("pattern-cost", f"{classifier}/{name}") for name in ("pgd, stopped when fooled", "pattern")
        )
        right = plain["right clean"]
        hit, third = where(plain["fooled"], right), where(held["case 3"], right)
        change = gain(third, hit)
        costs = {name: held[key] / plain[key] for name, key in
                 (("gradients", "backwards"), ("forward passes", "forwards"), ("seconds", "seconds"))}  # fmt: skip
        said = ", ".join(f"{cost:.1f} times the {name}" for name, cost in costs.items())
        found[classifier] = whole([at_most(change, 0.0), costs["gradients"] > 2])
        parts.append(
            f"{classifier}, of images right clean: PGD that stops when it has won fools {percent(share(hit))}, one "
            f"that holds the true logit up {percent(share(third))}: {points(change)}, at {said}"
        )
    verdict, only = by_classifier(found)
    rule = ". To hold: surely fewer are fooled, by however little, at more than twice the gradients."
    return Verdict(verdict, only + "; ".join(parts) + rule)


WAYS = {
    "unified": "",
    "asymmetric": " (backward through encoder and inner decoder, as the identity fits no other shape)",
}
"""How the gradient comes from what is purified to the image."""


def asymmetry(results: Results) -> Verdict:
    """BPDA-EOT on the symmetric and on the asymmetric system, and what other attackers leave."""
    parts, left = [], {}
    for system in ("unified", "asymmetric"):
        clean, bpda, through = (
            results.need("bpda", f"{system}, reconstruction/{column}")["outcome"]
            for column in ("clean", "bpda-eot", "surrogate pgd")
        )
        for name, outcome in (("bpda", bpda), ("surrogate", through)):
            # Of the images that are right clean, so that a weak classifier is not taken for a strong attack.
            left[system, name] = share(where(outcome, clean))
        three = [percent(share(clean)), *(percent(share(both(clean, outcome))) for outcome in (bpda, through))]
        parts.append(
            f"{system}: clean {three[0]}, BPDA-EOT{WAYS[system]} {three[1]}, PGD through the encoder {three[2]}"
        )
    union = results.need("bpda", "asymmetric, reconstruction/adaptive")
    parts.append(
        f"asymmetric, every attack together {percent(share(results.together('asymmetric, reconstruction')))}"
        f"{incomplete(union)}"
    )
    broken = at_most(left["unified", "bpda"], 0.5)
    kept = [at_least(left["asymmetric", name], 0.5) for name in ("bpda", "surrogate")]
    verdict = whole([broken, *kept])
    if verdict == HOLDS and incomplete(union):
        verdict = FEW
    why = " BPDA-EOT does not break the symmetric system either, so that asymmetry stops nothing." if not broken else ""
    if kept == [True, False]:
        verdict, why = FAILS, " What BPDA-EOT does not find, the gradient through encoder and decoder does."
    rule = (
        ". To hold, of the images right clean: BPDA-EOT breaks half on the symmetric system, and neither it nor PGD "
        "through the encoder breaks half on the asymmetric one."
    )
    return Verdict(verdict, "; ".join(parts) + "." + why + rule.removeprefix("."))
