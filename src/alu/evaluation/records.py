"""Diagnostics that are read off the outcomes themselves, so that merged shards can be read again. No torch here."""

from __future__ import annotations

from alu.evaluation.metrics import broken
from alu.evaluation.result import Diagnostic, Result

BLACK_BOX = ("query", "square", "transfer")


def from_records(result: Result) -> list[Diagnostic]:
    """What the attacks' outcomes say about the attacks."""
    return [black_box(result), inside(result), borrowed_flags(result)]


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
    notes = [note for record in result.attacks for note in record.notes if not note.startswith("left-the-ball")]
    if notes:
        return Diagnostic("autoattack-flags", "failed", " ".join(dict.fromkeys(notes)))
    ran = any("autoattack" in record.name and not record.failed for record in result.attacks)
    if not ran:
        return Diagnostic("autoattack-flags", "not run", "AutoAttack was not part of this suite.")
    return Diagnostic("autoattack-flags", "passed", "AutoAttack raised no flag.")
