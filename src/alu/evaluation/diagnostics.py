"""Diagnostics from numbers: what the attacks' outcomes and the measured curves show about the attacks.

Ids are stable; docs/diagnostics.md explains them. No torch here: merged shards are diagnosed again from their outcomes.
`alu.evaluation.probes` has the diagnostics that ask the subject itself.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from alu.evaluation.metrics import WRONG, broken, kept, outcomes
from alu.evaluation.result import Diagnostic, Result
from alu.evaluation.verdicts import eps_text

BLACK_BOX = ("query", "square", "hopskipjump", "transfer")


def checked(id: str, passed: bool, says: str, failing: str = "") -> Diagnostic:
    """A diagnostic that was run; `failing` is added if it failed."""
    return Diagnostic(id, "passed" if passed else "failed", says if passed or not failing else f"{says} {failing}")


def from_curves(curves: dict[str, Any], norm: str) -> list[Diagnostic]:
    """What the raw curves show."""
    by_eps, by_steps = curves["eps"], curves["steps"]
    once, often = curves["restarts"]
    n, last = by_eps[0]["n"], by_eps[-1]
    few = max(1, 0.05 * n)

    def size(eps: float) -> str:
        return f"{255 * eps:.3g}/255" if norm == "Linf" else f"{eps:.3g}"

    rises = any(high["right"] > low["right"] + slack(n) for low, high in pairwise(by_eps))
    sizes = ", ".join(f"{point['right']} at {size(point['eps'])}" for point in by_eps)
    steps = ", ".join(f"{point['right']} after {point['steps']}" for point in by_steps)
    large = f"{last['right']} of {n} answers are correct at eps {size(last['eps'])}"
    starts = f"{once['right']} after one start, {often['right']} after {often['restarts']}"
    return [
        checked("eps-monotone", not rises, f"Correct answers out of {n}, by eps: {sizes}.",
                "They should never increase with eps."),
        checked("eps-large", last["right"] <= few,
                f"{large}, where an image can be turned into almost any other."),
        checked("more-steps", by_steps[1]["right"] - by_steps[-1]["right"] <= few,
                f"Correct answers out of {n}, by steps: {steps}.", "More steps still break more images."),
        checked("more-restarts", once["right"] - often["right"] <= few,
                f"Correct answers out of {n}: {starts}.", "More restarts still break more images."),
    ]  # fmt: skip


def from_outcomes(result: Result) -> list[Diagnostic]:
    """What the attacks' outcomes show."""
    return [black_box(result), oblivious(result), inside(result), autoattack_flags(result), *sandwich(result)]


def black_box(result: Result) -> Diagnostic:
    """Attacks without the defence's gradients run last; images that they still break were missed by gradients."""
    n = len(result.labels)
    late = [record for record in result.attacks if record.name in BLACK_BOX and not record.failed]
    if not late:
        return Diagnostic("black-box", "not run", "No query or transfer attack was part of this suite.")
    counts = {record.name: broken(result, record) for record in late}
    texts = ", ".join(f"{name} broke {count}" for name, count in counts.items())
    return checked(
        "black-box", max(counts.values()) <= 0.002 * n, f"After the gradient attacks {texts} of {n} images.",
        "Gradients may be masked, or the gradient attacks too short.",
    )  # fmt: skip


def oblivious(result: Result) -> Diagnostic:
    """Whether images made for another model break more of the probed images than the deployed output's gradient."""
    if result.shard[1] > 1:  # a shard numbers its images by itself
        return Diagnostic("oblivious", "not run", "It is computed when the shards are merged.")
    if result.subject.get("traits", {}).get("stochastic"):
        says = "Outputs are random and the worst of ten draws counts, so one gradient search is not comparable."
        return Diagnostic("oblivious", "not run", says)
    clean = outcomes(result.clean, result.labels)
    probed = {int(row["image"]): int(row["broken"]) for row in result.curves.get("probed", [])}
    chosen = [image for image in probed if clean.get(image, WRONG) != WRONG]
    counts = {}
    for record in result.attacks:
        if record.whole and record.knowledge == "oblivious" and not record.failed:
            after = outcomes(record.answers, result.labels)
            counts[record.name] = sum(after.get(image) == WRONG for image in chosen)
    if not counts or not chosen:
        says = "This suite has no oblivious attack, or there is no gradient search to compare it with."
        return Diagnostic("oblivious", "not run", says)
    best, by_gradient = max(counts, key=lambda name: counts[name]), sum(probed[image] for image in chosen)
    says = (
        f"Of {len(chosen)} images that are answered correctly or rejected when clean, {best}, which does not know the "
        f"defence, breaks {counts[best]}; one gradient search on the deployed output breaks {by_gradient}."
    )
    sound = counts[best] <= by_gradient + slack(len(probed))
    return checked("oblivious", sound, says, "The deployed output's gradient is masked.")


def sandwich(result: Result) -> list[Diagnostic]:
    """Whether the RAR of a defence that refuses by a search lies between the two accuracies of its classifier that
    bound it: RA(max(r, eps - r)) <= RAR <= RA(r)."""
    radius = (result.subject.get("detector") or {}).get("radius")
    if not result.subject.get("traits", {}).get("search") or result.subject.get("rule") != "abstain" or radius is None:
        return []
    rows = result.curves.get("bounds")
    if not rows:
        says = "The bounds need an adaptive suite in L-inf, and a classifier with gradients."
        return [Diagnostic("sandwich", "not run", says)]
    eps, allowed = result.threat["eps"], slack(len(rows))
    near, far = ({row["image"] for row in rows if row[name]} for name in ("near", "far"))
    left = kept(result) & {row["image"] for row in rows}
    low, high, n = len(far), len(near), len(rows)
    says = (
        f"Of {n} images the bare classifier keeps {low} within {eps_text(max(radius, eps - radius))} and {high} within "
        f"{eps_text(radius)}; the defence keeps {len(left)} (RAR), which should lie between. {len(far - left)} of the "
        f"{low} were lost, and {len(left - near)} are kept that are not among the {high}."
    )
    if radius >= eps:
        says += (
            " The search goes as far as the attack: with an exact search an answer that is given equals the clean one."
        )
    failing = {
        "More are kept than the upper bound: the check's search is weaker than the attack on the bare classifier.": (
            len(left) > high + allowed
        ),
        "Fewer are kept than the lower bound: the bare classifier was attacked too weakly, the check's search "
        "overlooks answers that an attacker finds, or there is a fault.": len(left) < low - allowed,
    }  # fmt: skip
    return [checked("sandwich", not any(failing.values()), says, " ".join(why for why, bad in failing.items() if bad))]


def inside(result: Result) -> Diagnostic:
    """Whether every image stayed inside the ball and inside [0, 1]."""
    left = [record.name for record in result.attacks if any(note.startswith("left-the-ball") for note in record.notes)]
    outside = f"Images of {', '.join(left)} lie outside the ball or outside [0, 1]: the threat model forbids them."
    everything_inside = "Every attacked image lies inside the ball and inside [0, 1]."
    return checked("left-the-ball", not left, outside if left else everything_inside)


def autoattack_flags(result: Result) -> Diagnostic:
    """AutoAttack's own warnings, verbatim."""
    ours = ("left-the-ball", "Left out: ")
    notes = [note for record in result.attacks for note in record.notes if not note.startswith(ours)]
    if notes:
        return Diagnostic("autoattack-flags", "failed", " ".join(dict.fromkeys(notes)))
    ran = [record for record in result.attacks if "autoattack" in record.name and not record.failed]
    if not any(record.answers.images for record in ran):
        says = "AutoAttack had no image left to attack." if ran else "AutoAttack was not part of this suite."
        return Diagnostic("autoattack-flags", "not run", says)
    return Diagnostic("autoattack-flags", "passed", "AutoAttack raised no flag.")


def slack(n: int) -> int:
    """By how many images two counts may differ before it means something."""
    return max(1, round(0.03 * n))
