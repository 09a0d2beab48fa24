"""What a detector does on images that nobody attacked: its threshold, and alarms on harmless changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from alu.evaluation.subject import Subject
from alu.purifiers import JPEG, Blur
from alu.rng import uniform_per_image


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


def noisy(images: Tensor) -> Tensor:
    """Uniform noise of two gray levels, the same for the same place in a batch."""
    noise = uniform_per_image(range(len(images)), tuple(images.shape[1:]), 0, "harmless noise")
    return (images + noise.to(images) * 2 / 255).clamp(0, 1)


HARMLESS: dict[str, Callable[[Tensor], Tensor]] = {
    "JPEG, quality 90": JPEG(quality=90),
    "JPEG, quality 75": JPEG(quality=75),
    "10 % brighter": lambda images: (images * 1.1).clamp(0, 1),
    "10 % darker": lambda images: images * 0.9,
    "slight blur": Blur(sigma=0.4),
    "noise of 2/255": noisy,
}


@torch.no_grad()
def harmless_changes(subject: Subject, images: Tensor, labels: Tensor) -> list[dict[str, Any]]:
    """For each harmless change how many images are flagged and how many answered rightly."""
    found = []
    for name, change in HARMLESS.items():
        judged = subject.judge(change(images), labels, range(len(images)))
        right = sum(
            accepted and answer == int(label)
            for answer, accepted, label in zip(judged.answer, judged.accepted, labels, strict=True)
        )
        found.append({"change": name, "flagged": sum(judged.flagged), "right": right, "n": len(images)})
    return found
