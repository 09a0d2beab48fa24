"""What was said of right answers."""

from __future__ import annotations

from alu.evaluation.intervals import Share
from alu.report.paper.artefacts import unlikely
from alu.report.paper.judging import FAILS, HOLDS, OBLIVIOUS, Verdict, at_most, better, whole
from alu.report.paper.results import MissingCellError, Results, share, where
from alu.report.paper.shape import percent


def _informed(results: Results, reading: str = "input") -> Share:
    """What the bundled defence keeps against an attacker who knows it."""
    return share(results.need("threats", f"{reading}/adaptive")["adaptive"])


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
