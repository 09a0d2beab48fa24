"""The 8-bit lattice: adversarial images that survive being saved as a picture."""

from __future__ import annotations

import torch
from torch import Tensor

from alu.errors import InputError
from alu.threat import ThreatModel

LEVELS = 255
SLACK = 1e-3
"""Tolerance in units of a level: eps = 8/255 is 8 levels in spite of rounding."""


def on_lattice(images: Tensor) -> Tensor:
    """Whether every pixel of each image is some k/255 [N]."""
    levels = images * LEVELS
    return ((levels - levels.round()).abs() <= SLACK).flatten(1).all(1)


def to_lattice(images: Tensor, origin: Tensor, threat: ThreatModel) -> Tensor:
    """The nearest 8-bit images that the threat model allows; `origin` must be 8-bit.

    A change is rounded to the nearest level, and towards the original where that would leave the ball.
    """
    if not bool(on_lattice(origin).all()):
        raise InputError(
            "lattice=True keeps adversarial images at multiples of 1/255, but these images are not 8-bit pictures "
            "themselves. Round them first, (images * 255).round() / 255, or leave lattice out."
        )
    moved = (images - origin) * LEVELS
    if threat.norm == "Linf":
        limit = int(threat.eps * LEVELS + SLACK)
        steps = moved.round().clamp(-limit, limit)
    else:
        steps = _shortened(moved, threat.eps * LEVELS)
    levels = ((origin * LEVELS).round() + steps).clamp(0, LEVELS)
    return torch.where(steps == 0, origin, (levels / LEVELS).to(origin.dtype))


def _shortened(moved: Tensor, radius: float) -> Tensor:
    """Whole steps no longer than `radius` in L2: each image rounds up the fractions above a threshold of its own.

    A threshold of 1/2 is rounding to the nearest; 1 is rounding towards the original, which is never longer than the
    change itself. The lowest threshold that stays inside the ball changes the attack least.
    """
    size, sign = moved.abs(), moved.sign()
    low = torch.full((len(moved), *[1] * (moved.ndim - 1)), 0.5, dtype=moved.dtype, device=moved.device)
    high = torch.ones_like(low)

    def whole(threshold: Tensor) -> Tensor:
        return size.floor() + (size.frac() >= threshold)

    fits = _length(whole(low)) <= radius
    for _ in range(20):
        middle = (low + high) / 2
        inside = (_length(whole(middle)) <= radius).view_as(middle)
        high, low = torch.where(inside, middle, high), torch.where(inside, low, middle)
    return sign * torch.where(fits.view_as(high), whole(torch.full_like(high, 0.5)), whole(high))


def _length(steps: Tensor) -> Tensor:
    length: Tensor = steps.flatten(1).norm(dim=1)
    return length
