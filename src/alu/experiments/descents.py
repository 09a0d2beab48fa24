"""Descents: what ALU answers at several numbers of latent steps, from one descent of each set of images."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from alu.attacks import PGD
from alu.attacks.adaptive.view import smoothly_purified
from alu.decision import Evidence
from alu.defense import batched_logits
from alu.detectors import LogitShift
from alu.experiments.base import Found
from alu.experiments.material import Material, Shown
from alu.experiments.unions import EPS, defended
from alu.experiments.verdicts import answered, digits
from alu.purifiers import LatentVAE

VAE = "cifar10-vae"
CLASSIFIERS = ("cifar10-unified", "cifar10-standard", "cifar10-at")
"""The paper's ablations are on its unified classifier (their clean accuracy says so); the others see the same steps."""
KINDS = {"pgd-20 on f": "f", "pgd-20 on f(D(E))": "f(D(E))"}
TINY = 1e-12
"""In place of a threshold of nothing: where no image moves none is divided by 0."""
Logits = tuple[dict[int, Tensor], Tensor]
"""A classifier's logits after each number of steps, and of the reconstruction."""


def image_sets(material: Material, classifier: str, n: int) -> dict[str, Shown]:
    """Clean test images, and the same under PGD-20 on f and on f(D(E))."""
    clean = material.images("cifar10", "test", n)
    attack, found = PGD(eps=EPS, steps=20, seed=material.seed), {"clean": clean}
    for kind, on in KINDS.items():
        bare = material.classifier(classifier)
        model = bare if on == "f" else smoothly_purified(defended(material, classifier, f"{VAE}@0", "purified"))
        found[kind] = material.attacked(f"{kind} of {classifier}", clean, attack, model)
    return found


def at_each(
    material: Material,
    purifier: LatentVAE,
    name: str,
    counts: Sequence[int],
    calibration: int | None = None,
    n: int | None = None,
) -> Found:
    """For each classifier, set of images and number of steps: the purified answer, and both readings; the threshold of
    each classifier, reading and number of steps comes from held-out clean images that went the same way."""
    calm = material.images("cifar10", "calibration", calibration or material.sizes["calibration"])
    clean = material.images("cifar10", "test", n or material.sizes["n"])
    # The steps do not ask the classifier: clean images are taken down once for all of them.
    shared = {
        shown.key: _logits(material, purifier, f"{name}, {shown.key}", shown, counts, CLASSIFIERS)
        for shown in (calm, clean)
    }
    found: Found = {"calibration": len(calm), "n": len(clean)}
    for classifier in CLASSIFIERS:
        fitted: dict[tuple[int, str], LogitShift] = {}
        for at, evidence in _evidence(material, classifier, calm, shared[calm.key][classifier]).items():
            fitted[at] = LogitShift()
            fitted[at].calibrate(evidence)
        found[classifier] = {}
        for kind, shown in image_sets(material, classifier, len(clean)).items():
            if shown.key in shared:
                logits = shared[shown.key][classifier]
            else:
                logits = _logits(material, purifier, f"{name}, {shown.key}", shown, counts, (classifier,))[classifier]
            rows: dict[str, dict[str, object]] = {}
            for (count, reading), evidence in _evidence(material, classifier, shown, logits).items():
                row = rows.setdefault(str(count), {})
                row["purified"] = digits(evidence.post_logits.argmax(1) == shown.labels)
                by = fitted[count, reading]
                mark = float(by.threshold_)
                row[reading] = {
                    **answered(evidence, by, shown.labels),
                    "score / threshold": _quartiles(by.score(evidence) / max(mark, TINY)),
                    "threshold": _digits(mark),
                }
            found[classifier][kind] = rows
    return found


def _digits(value: float) -> float:
    """Four of them: at small rates a score is a millionth."""
    return float(f"{value:.4g}")


def _quartiles(values: Tensor) -> list[float]:
    """How far scores lie from the threshold: a quarter, half and three quarters of the images lie below these."""
    return [_digits(value) for value in values.quantile(values.new_tensor([0.25, 0.5, 0.75])).tolist()]


@torch.no_grad()
def _logits(
    material: Material, purifier: LatentVAE, what: str, shown: Shown, counts: Sequence[int], classifiers: Sequence[str]
) -> dict[str, Logits]:
    """Logits of each classifier after each number of steps; images are not kept, so that many numbers fit in memory."""
    after: dict[str, dict[int, list[Tensor]]] = {name: {count: [] for count in counts} for name in classifiers}
    again: dict[str, list[Tensor]] = {name: [] for name in classifiers}
    for start in range(0, len(shown), 100):
        material.watch(what, start, len(shown))
        some = shown.images[start : start + 100]
        rebuilt, outputs = purifier.reconstructed(some), purifier.outputs(some, counts)
        for name in classifiers:
            classifier = material.classifier(name)
            again[name].append(batched_logits(classifier, rebuilt))
            for count, output in zip(counts, outputs, strict=True):
                after[name][count].append(batched_logits(classifier, output))
    material.watch(what, len(shown), len(shown))
    return {
        name: ({count: torch.cat(parts) for count, parts in after[name].items()}, torch.cat(again[name]))
        for name in classifiers
    }


def _evidence(material: Material, classifier: str, shown: Shown, logits: Logits) -> dict[tuple[int, str], Evidence]:
    """Evidence of both readings at each number of steps."""
    after, again = logits
    before = {"input": material.logits(classifier, shown.key, shown.images), "reconstruction": again}
    return {
        (count, reading): Evidence(shown.images, shown.images, first, last)
        for count, last in after.items()
        for reading, first in before.items()
    }
