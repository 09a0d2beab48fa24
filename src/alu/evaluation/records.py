"""Diagnostics that are read off the outcomes themselves, so that merged shards can be read again. No torch here."""

from __future__ import annotations

from alu.evaluation.metrics import WRONG, broken, outcomes
from alu.evaluation.result import Diagnostic, Result

BLACK_BOX = ("query", "square", "hopskipjump", "transfer")


def from_records(result: Result) -> list[Diagnostic]:
    """What the attacks' outcomes say about the attacks."""
    return [black_box(result), oblivious(result), inside(result), borrowed_flags(result)]


def black_box(result: Result) -> Diagnostic:
    """Attacks without the defence's gradients run last; what they still break, the gradient attacks missed."""
    n = len(result.labels)
    late = [record for record in result.attacks if record.name in BLACK_BOX and not record.failed]
    if not late:
        return Diagnostic("black-box", "not run", "No query or transfer attack was part of this suite.")
    found = {record.name: broken(result, record) for record in late}
    worst = max(found, key=lambda name: found[name])
    says = ", ".join(f"{name} broke {count}" for name, count in found.items())
    if found[worst] > 0.002 * n:
        share = 100 * found[worst] / n
        return Diagnostic(
            "black-box", "failed",
            f"{worst} broke {found[worst]} images ({share:.1f} points) that every gradient attack had missed: "
            "gradients may be masked, or their budget too small.",
        )  # fmt: skip
    return Diagnostic("black-box", "passed", f"After the gradient attacks {says} of {n} images.")


def oblivious(result: Result) -> Diagnostic:
    """Whether images made for something else break more than the gradient of what is deployed does: of the probed
    images, each attack's on all of them."""
    clean = outcomes(result.clean, result.labels)
    fallen = {int(row["image"]): int(row["broken"]) for row in result.curves.get("probed", [])}
    probed = [image for image in fallen if clean.get(image, WRONG) != WRONG]
    by_gradient = sum(fallen[image] for image in probed)
    carried = {}
    for record in result.attacks:
        if record.whole and record.knowledge == "oblivious" and not record.failed:
            found = outcomes(record.judged, result.labels)
            carried[record.name] = sum(found.get(image) == WRONG for image in probed)
    if result.shard[1] > 1:  # its images are numbered by themselves
        return Diagnostic("oblivious", "not run", "It is read when the shards are merged.")
    if result.subject.get("traits", {}).get("stochastic"):
        return Diagnostic(
            "oblivious", "not run", "Of a random subject the worst of ten draws counts, which is no search."
        )
    if not carried or not probed:
        says = "No attack of this suite was made for something else, or no gradient could be followed beside it."
        return Diagnostic("oblivious", "not run", says)
    worst = max(carried, key=lambda name: carried[name])
    says = (
        f"Of {len(probed)} images that are not wrong clean, {worst}, which does not know the defence, breaks "
        f"{carried[worst]}; one search along the gradient of what is deployed breaks {by_gradient}."
    )
    weak = carried[worst] > by_gradient + max(1, round(0.03 * len(fallen)))
    return Diagnostic("oblivious", "failed" if weak else "passed", says + (" That gradient is masked." if weak else ""))


def inside(result: Result) -> Diagnostic:
    """Whether every image stayed inside the ball and the box."""
    gone = [record.name for record in result.attacks if any(note.startswith("left-the-ball") for note in record.notes)]
    if gone:
        return Diagnostic(
            "left-the-ball", "failed", f"Images of {', '.join(gone)} are not allowed by the threat model."
        )
    return Diagnostic("left-the-ball", "passed", "Every attacked image lies inside the ball and inside [0, 1].")


def borrowed_flags(result: Result) -> Diagnostic:
    """AutoAttack's own warnings, verbatim."""
    ours = ("left-the-ball", "Left out: ")
    notes = [note for record in result.attacks for note in record.notes if not note.startswith(ours)]
    if notes:
        return Diagnostic("autoattack-flags", "failed", " ".join(dict.fromkeys(notes)))
    ran = [record for record in result.attacks if "autoattack" in record.name and not record.failed]
    if not any(record.judged.images for record in ran):
        says = "AutoAttack had no image left to attack." if ran else "AutoAttack was not part of this suite."
        return Diagnostic("autoattack-flags", "not run", says)
    return Diagnostic("autoattack-flags", "passed", "AutoAttack raised no flag.")
