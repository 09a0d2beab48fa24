"""Harmless changes: what cameras, files and editors do to pictures. A defence should keep its answers on them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from alu.decision import Decision
from alu.defense import Defense, batched_logits
from alu.progress import Count, silent
from alu.purifiers import JPEG, Blur
from alu.rng import normal_per_image


@dataclass(frozen=True)
class Change:
    """One way in which a picture changes without an attack, and what it is one of; `moderate` if a person hardly
    notices it."""

    name: str
    family: str
    apply: Callable[[Tensor], Tensor]
    moderate: bool = True


def gaussian_noise(images: Tensor, sigma: float) -> Tensor:
    """Normal noise of standard deviation `sigma`; it depends on the image alone."""
    noise = normal_per_image(images, tuple(images.shape[1:]), 0, "harmless noise")
    return (images + sigma * noise).clamp(0, 1)


def salt_and_pepper(images: Tensor, fraction: float) -> Tensor:
    """A fraction of the pixels, all their channels together, turned white or black."""
    chance = normal_per_image(images, (1, *images.shape[2:]), 0, "salt and pepper")
    limit = NormalDist().inv_cdf(1 - fraction / 2)
    return torch.where(chance.abs() > limit, (chance > 0).to(images), images)


def brightness(images: Tensor, by: float) -> Tensor:
    """Every pixel made brighter, or darker if `by` is negative."""
    return (images + by).clamp(0, 1)


def contrast(images: Tensor, factor: float) -> Tensor:
    """Every pixel's distance to middle gray multiplied."""
    return ((images - 0.5) * factor + 0.5).clamp(0, 1)


def shifted(images: Tensor, pixels: int) -> Tensor:
    """Moved right and down; the first row and column are repeated."""
    moved = F.pad(images, (pixels, 0, pixels, 0), mode="replicate")
    return moved[:, :, : images.shape[2], : images.shape[3]]


def rotated(images: Tensor, degrees: float) -> Tensor:
    """Turned around the centre, bilinearly; what comes in from outside repeats the edge."""
    angle = math.radians(degrees)
    height, width = images.shape[2:]
    # affine_grid works in units of half a side, so a picture that is not square needs the ratio of its sides.
    turn = torch.tensor([
        [math.cos(angle), -math.sin(angle) * height / width, 0.0],
        [math.sin(angle) * width / height, math.cos(angle), 0.0],
    ]).to(images)  # fmt: skip
    grid = F.affine_grid(turn.expand(len(images), 2, 3), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False).clamp(0, 1)


NOISE, SPECKS, LIGHT, DETAIL, PLACE = (
    "noise", "salt and pepper", "other light", "blur or JPEG", "a shift or rotation",
)  # fmt: skip
HARMLESS = (
    Change("Gaussian noise 0.02", NOISE, partial(gaussian_noise, sigma=0.02)),
    Change("Gaussian noise 0.05", NOISE, partial(gaussian_noise, sigma=0.05)),
    Change("Gaussian noise 0.1", NOISE, partial(gaussian_noise, sigma=0.1)),
    Change("Gaussian noise 0.2", NOISE, partial(gaussian_noise, sigma=0.2), moderate=False),
    Change("salt and pepper 1 %", SPECKS, partial(salt_and_pepper, fraction=0.01)),
    Change("salt and pepper 2 %", SPECKS, partial(salt_and_pepper, fraction=0.02)),
    Change("salt and pepper 5 %", SPECKS, partial(salt_and_pepper, fraction=0.05), moderate=False),
    Change("brightness +0.1", LIGHT, partial(brightness, by=0.1)),
    Change("brightness -0.1", LIGHT, partial(brightness, by=-0.1)),
    Change("brightness +0.2", LIGHT, partial(brightness, by=0.2)),
    Change("brightness -0.2", LIGHT, partial(brightness, by=-0.2)),
    Change("contrast x 0.7", LIGHT, partial(contrast, factor=0.7)),
    Change("contrast x 1.3", LIGHT, partial(contrast, factor=1.3)),
    Change("blur of 0.5 pixels", DETAIL, Blur(sigma=0.5)),
    Change("blur of 1 pixel", DETAIL, Blur(sigma=1.0), moderate=False),
    Change("JPEG, quality 90", DETAIL, JPEG(quality=90)),
    Change("JPEG, quality 75", DETAIL, JPEG(quality=75)),
    Change("JPEG, quality 50", DETAIL, JPEG(quality=50), moderate=False),
    Change("shift by 1 pixel", PLACE, partial(shifted, pixels=1)),
    Change("shift by 2 pixels", PLACE, partial(shifted, pixels=2), moderate=False),
    Change("rotation by 5 degrees", PLACE, partial(rotated, degrees=5)),
    Change("rotation by 10 degrees", PLACE, partial(rotated, degrees=10), moderate=False),
)
"""The changes that every fit and every evaluation of a defence is measured on."""


@torch.no_grad()
def harmless_rows(
    defense: Defense,
    images: Tensor,
    labels: Tensor,
    batch_size: int = 100,
    watch: Count = silent,
) -> list[dict[str, Any]]:
    """For each change, of `n` images: correct answers of the bare classifier ("bare"), of the purifier alone
    ("purified") and of the deployed rule ("right"); how many are flagged, and how many rejected."""
    rows = []
    watch(0, len(HARMLESS))
    for number, change in enumerate(HARMLESS, start=1):
        starts = range(0, len(images), batch_size)
        changed = torch.cat([change.apply(images[start : start + batch_size]) for start in starts])
        answers = counts(defense, changed, labels, batch_size)
        rows.append({"change": change.name, "moderate": change.moderate, **answers})
        watch(number, len(HARMLESS))
    return rows


@torch.no_grad()
def counts(defense: Defense, images: Tensor, labels: Tensor, batch_size: int = 100) -> dict[str, int]:
    """Of `n` images: bare, purified and deployed answers that are correct; flagged; rejected."""
    decision: Decision = defense.decide(images, batch_size)
    labels = labels.to(decision.label.device)
    by_input = defense.reference == "input"
    before = decision.pre_logits if by_input else batched_logits(defense.logits, images, batch_size)
    return {
        "bare": int((before.argmax(1) == labels).sum()),
        "purified": int((decision.post_logits.argmax(1) == labels).sum()),
        "right": int(((decision.label == labels) & decision.accepted).sum()),
        "flagged": int(decision.flagged.sum()),
        "rejected": int((~decision.accepted).sum()),
        "n": len(images),
    }
