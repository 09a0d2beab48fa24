"""What the cards of the bundled models promise: floors for their figures, and room for all of them in the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from alu import models
from alu.models.cards import WEIGHTS

VAE = "clean accuracy through cifar10-vae, {} steps"
DENOISED = "cifar10-standard after denoising, {}"
# name, figure, least and greatest percent, least number of images
PROMISES: list[tuple[str, str, float, float, int]] = [
    ("cifar10-standard", "clean accuracy", 90.5, 100, 10_000),
    ("cifar10-standard", "PGD-20, 8/255", 0, 1, 500),
    ("cifar10-vae", "cifar10-standard after 0 steps", 80, 100, 10_000),
    ("cifar10-vae", "cifar10-standard after 20 steps", 84, 100, 10_000),
    ("cifar10-unified", VAE.format(0), 85, 100, 10_000),
    ("cifar10-unified", VAE.format(20), 85, 100, 10_000),
    ("cifar10-at", "clean accuracy", 70, 100, 10_000),
    ("cifar10-at", "PGD-20, 8/255", 40, 100, 500),
    ("cifar10-at", "robust accuracy, 8/255", 34, 100, 1_000),
    ("cifar10-unet", DENOISED.format("clean"), 85, 100, 10_000),
    ("cifar10-unet", DENOISED.format("oblivious PGD-20, 8/255"), 60, 100, 500),
    ("cifar100-standard", "clean accuracy", 45, 100, 10_000),
    ("tiny-imagenet-standard", "clean accuracy", 20, 100, 10_000),
    *(
        (f"cifar10-{method}", figure, least, 100, n)
        for method in ("trades", "mart", "fat", "gairat", "awp")
        for figure, least, n in (("clean accuracy", 60, 10_000), ("PGD-20, 8/255", 33, 500))
    ),
]


def broken_promises(name: str, figures: dict[str, Any]) -> list[str]:
    """The promises about a model that its figures do not keep."""
    broken = []
    for model, figure, least, greatest, n in PROMISES:
        if model == name:
            found = figures[figure]
            if not (least <= found["percent"] <= greatest and found["n"] >= n):
                broken.append(f"{figure}: {found['percent']} % of {found['n']}, promised {least} to {greatest} of {n}")
    if name == "cifar10-at":  # far apart they would show catastrophic overfitting
        gap = figures["PGD-10, 8/255"]["percent"] - figures["PGD-50, 8/255"]["percent"]
        if gap > 2:
            broken.append(f"PGD-50 is {gap:.1f} points below PGD-10")
    return broken


@pytest.mark.parametrize("name", models.names())
def test_a_card_keeps_its_promises(name: str) -> None:
    assert broken_promises(name, models.card(name).figures) == []


def test_all_models_together_are_small() -> None:
    assert sum(path.stat().st_size for path in Path(WEIGHTS).iterdir()) <= 60e6
