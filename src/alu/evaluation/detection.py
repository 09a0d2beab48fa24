"""What is known of a detector: its name, its threshold, and what that was calibrated on."""

from __future__ import annotations

from typing import Any

from alu.evaluation.subject import Subject


def detector_facts(subject: Subject) -> dict[str, Any]:
    """Name, threshold, false-alarm rate and how many images it was calibrated on; empty without a detector."""
    detector = subject.defense.detector if subject.defense is not None else None
    if detector is None or not detector.calibrated:
        return {}
    facts: dict[str, Any] = {"name": type(detector).__name__, "false_alarm": detector.false_alarm}
    facts["calibration_images"] = len(detector.scores_)
    if detector.scores_.numel():
        facts["threshold"] = round(float(detector.threshold_), 6)
    return {"detector": facts}
