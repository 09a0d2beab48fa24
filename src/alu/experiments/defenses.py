"""The bundled CIFAR-10 defences by name: a classifier, a purifier and a reading, calibrated on the bundled images."""

from __future__ import annotations

from collections.abc import Callable

from alu import data, models
from alu.decision import RuleName
from alu.defense import Defense, Reference
from alu.detectors import LogitShift
from alu.purifiers import PCA, LatentVAE, Purifier

READINGS: dict[str, tuple[RuleName, Reference]] = {
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


Watch = Callable[[int, int], None] | None


def by_name(name: str, watch: Watch = None) -> Defense | None:
    """The defence that a name like "demo-pca" means, or "cifar10-at+vae-reconstruction": a bundled CIFAR-10 classifier
    behind one of the demo's purifiers, in one of its readings. None if it means none."""
    if name in DEMO:
        return bundled_defense("cifar10-standard", *DEMO[name], watch=watch)
    classifier, plus, behind = name.partition("+")
    if not plus or classifier not in _classifiers():
        return None
    purifier, _, reading = behind.partition("-")
    reading = reading or "input"
    known = (purifier, reading) in DEMO.values()
    return bundled_defense(classifier, purifier, reading, watch=watch) if known else None


def all_names() -> list[str]:
    """Every name that `by_name` knows."""
    behind = [purifier if reading == "input" else f"{purifier}-{reading}" for purifier, reading in DEMO.values()]
    return [*DEMO, *(f"{classifier}+{one}" for classifier in _classifiers() for one in behind)]


def _classifiers() -> list[str]:
    """Bundled networks that read CIFAR-10 images; the asymmetric one reads an inner layer."""
    known = models.names("classifier")
    return [name for name in known if name.startswith("cifar10-") and not name.endswith("-asymmetric")]


def bundled_purifier(name: str, steps: int = 20) -> Purifier:
    """ "vae", optimised for `steps`, or "pca"."""
    return PCA.bundled("cifar10-pca") if name == "pca" else LatentVAE("cifar10-vae", steps=steps)


def bundled_defense(
    classifier: str = "cifar10-standard",
    purifier: str = "vae",
    reading: str = "input",
    steps: int = 20,
    watch: Watch = None,
) -> Defense:
    """A bundled classifier behind a bundled purifier, calibrated on all bundled calibration images."""
    rule, reference = READINGS[reading]
    made = Defense(models.load(classifier), bundled_purifier(purifier, steps), LogitShift(), rule, reference)
    calibration = data.sample("calibration")
    made.calibrate(calibration.images, watch=watch)
    made.classes = calibration.classes
    return made
