"""The bundled CIFAR-10 defences by name: a classifier, a purifier and a reading, calibrated on the bundled images."""

from __future__ import annotations

from alu import data, models
from alu.defense import Defense
from alu.detectors import LogitShift
from alu.purifiers import PCA, LatentVAE, Purifier

READINGS = {
    "input": ("alu", "input"),
    "reconstruction": ("alu", "reconstruction"),
    "purified": ("purified", "input"),
    "abstain": ("abstain", "input"),
}
"""How an answer is made: the rule, and what the logits after purification are compared with."""
DEMO = {
    "demo": ("vae", "input"),
    "demo-reconstruction": ("vae", "reconstruction"),
    "demo-purified": ("vae", "purified"),
    "demo-abstain": ("vae", "abstain"),
    "demo-pca": ("pca", "input"),
    "demo-pca-purified": ("pca", "purified"),
    "demo-pca-abstain": ("pca", "abstain"),
}
"""The demo's purifiers in every reading they have; a projection has no reconstruction."""


def bundled_purifier(name: str, steps: int = 20) -> Purifier:
    """ "vae", optimised for `steps`, or "pca"."""
    return PCA.bundled("cifar10-pca") if name == "pca" else LatentVAE("cifar10-vae", steps=steps)


def bundled_defense(
    classifier: str = "cifar10-standard", purifier: str = "vae", reading: str = "input", steps: int = 20
) -> Defense:
    """A bundled classifier behind a bundled purifier, calibrated on all bundled calibration images."""
    rule, reference = READINGS[reading]
    made = Defense(models.load(classifier), bundled_purifier(purifier, steps), LogitShift(), rule, reference)
    calibration = data.sample("calibration")
    made.calibrate(calibration.images)
    made.classes = calibration.classes
    return made
