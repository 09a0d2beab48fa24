"""What was said of attackers who do something about it."""

from __future__ import annotations

from alu.report.paper.judging import FAILS, HOLDS, OBLIVIOUS, Verdict, at_least, better, whole
from alu.report.paper.results import Results, share, where
from alu.report.paper.shape import percent


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
