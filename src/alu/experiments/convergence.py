"""convergence: does the purified image approach the clean one as N grows, and does the estimated logit change point the
right way?"""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F

from alu.defense import batched_logits
from alu.experiments.base import Cell, Experiment, Found
from alu.experiments.descents import VAE, image_sets
from alu.experiments.iterations import COUNTS
from alu.experiments.material import Material
from alu.purifiers import LatentVAE

CLASSIFIER = "cifar10-standard"


def cells(material: Material) -> list[Cell]:
    """One cell for each way to attack."""
    return [
        Cell(kind, partial(_cell, material, kind), (CLASSIFIER, VAE)) for kind in ("pgd-20 on f", "pgd-20 on f(D(E))")
    ]


def _cell(material: Material, kind: str) -> Found:
    """By N, for each image: the distance (root mean square) of the purified image to the clean and to the attacked one,
    and the cosine between the estimated logit change (purified minus attacked) and the true one (clean minus attacked).
    """
    counts = [count for count in COUNTS if count <= material.sizes["steps"]]
    clean, shown = (image_sets(material, CLASSIFIER, material.sizes["n"])[which] for which in ("clean", kind))
    purifier = LatentVAE(VAE, steps=counts[-1], lr=1e-2, schedule="constant").to(material.device)
    classifier = material.classifier(CLASSIFIER)
    before, truly = batched_logits(classifier, shown.images), batched_logits(classifier, clean.images)
    found: Found = {"n": len(shown), "solver": "Adam, lr 0.01", "attack itself": _apart(shown.images, clean.images)}
    rows: dict[int, dict[str, list[float]]] = {
        count: {"to clean": [], "to attacked": [], "cosine": []} for count in counts
    }
    for start in range(0, len(shown), 100):
        material.watch(f"Convergence, {kind}", start, len(shown))
        part = slice(start, start + 100)
        for count, output in zip(counts, purifier.outputs(shown.images[part], counts), strict=True):
            guess = batched_logits(classifier, output) - before[part]
            cosine = F.cosine_similarity(guess, truly[part] - before[part])
            rows[count]["to clean"] += _apart(output, clean.images[part])
            rows[count]["to attacked"] += _apart(output, shown.images[part])
            rows[count]["cosine"] += [round(float(value), 4) for value in cosine]
    return {**found, "by N": {str(count): row for count, row in rows.items()}}


def _apart(one: torch.Tensor, other: torch.Tensor) -> list[float]:
    return [round(float(value), 5) for value in (one - other).flatten(1).square().mean(1).sqrt()]


EXPERIMENT = Experiment(
    name="convergence",
    title="Where the purified image goes",
    question="With more steps, does the purified image approach the clean image or the attacked one?",
    cells=cells,
    full={"n": 200, "steps": 200},
    quick={"n": 20, "steps": 20},
    differs="The paper states it and shows no distances.",
    why="Distances differ little between images; 200 settle their means.",
)
