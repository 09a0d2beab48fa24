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

CLASSIFIER, VAE = "cifar10-standard", "cifar10-vae"


def image_sets(material: Material) -> dict[str, Shown]:
    """Clean test images, and the same under PGD-20 on f and on f(D(E))."""
    clean = material.images("cifar10", "test", material.sizes["n"])
    attack = PGD(eps=EPS, steps=20, seed=material.seed)
    through = smoothly_purified(defended(material, CLASSIFIER, f"{VAE}@0", "purified"))
    return {
        "clean": clean,
        "pgd-20 on f": material.attacked("pgd-20 on f", clean, attack, material.classifier(CLASSIFIER)),
        "pgd-20 on f(D(E))": material.attacked("pgd-20 on f(D(E))", clean, attack, through),
    }


def at_each(
    material: Material, purifier: LatentVAE, name: str, counts: Sequence[int], calibration: int | None = None
) -> Found:
    """For each number of steps and each set of images: bare, purified, and both readings; the threshold of each
    reading and number of steps comes from held-out clean images that went the same way."""
    calm = material.images("cifar10", "calibration", calibration or material.sizes["calibration"])
    seen = _evidence(material, purifier, f"{name}, calibration", calm, counts)
    fitted: dict[tuple[int, str], LogitShift] = {}
    for at, evidence in seen.items():
        fitted[at] = LogitShift()
        fitted[at].calibrate(evidence)
    found: Found = {"calibration": len(calm), "n": material.sizes["n"]}
    for kind, shown in image_sets(material).items():
        rows: dict[str, dict[str, object]] = {}
        for (count, reading), evidence in _evidence(material, purifier, f"{name}, {kind}", shown, counts).items():
            row = rows.setdefault(str(count), {})
            row["purified"] = digits(evidence.post_logits.argmax(1) == shown.labels)
            row[reading] = answered(evidence, fitted[count, reading], shown.labels)
        found[kind] = rows
    return found


def _evidence(
    material: Material, purifier: LatentVAE, what: str, shown: Shown, counts: Sequence[int]
) -> dict[tuple[int, str], Evidence]:
    """Evidence of both readings at each number of steps; only logits are kept, so that many numbers fit in memory."""
    classifier = material.classifier(CLASSIFIER)
    after: dict[int, list[Tensor]] = {count: [] for count in counts}
    again: list[Tensor] = []
    for start in range(0, len(shown), 100):
        material.watch(what, start, len(shown))
        some = shown.images[start : start + 100]
        with torch.no_grad():
            again.append(batched_logits(classifier, purifier.reconstructed(some)))
            for count, output in zip(counts, purifier.outputs(some, counts), strict=True):
                after[count].append(batched_logits(classifier, output))
    material.watch(what, len(shown), len(shown))
    before = {"input": batched_logits(classifier, shown.images), "reconstruction": torch.cat(again)}
    return {
        (count, reading): Evidence(shown.images, shown.images, logits, torch.cat(after[count]))
        for count in counts
        for reading, logits in before.items()
    }
