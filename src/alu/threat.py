"""ThreatModel: how far an attacker may move an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from alu.errors import UsageError, check_choice

Norm = Literal["Linf", "L2"]
USUAL: dict[str, float] = {"Linf": 8 / 255, "L2": 0.5}
"""The usual eps by norm, for images of 32 x 32 pixels."""


@dataclass(frozen=True)
class ThreatModel:
    """What an attacker may do: all images within `eps` of the original in `norm` and inside `bounds`.

    Parameters
    ----------
    norm, eps
        The norm ("Linf" or "L2") and the largest allowed distance in it.
    bounds
        The lowest and the highest pixel value.

    Examples
    --------
    >>> threat = alu.ThreatModel("Linf", 8 / 255)
    >>> threat.contains(images, images).tolist()
    [True, True, True, True]
    """

    norm: Norm = "Linf"
    eps: float = 8 / 255
    bounds: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        check_choice("norm", self.norm, USUAL)
        if not self.eps >= 0:
            raise UsageError(f"eps must be 0 or more; it is {self.eps}.")
        if self.norm == "Linf" and self.eps > 1:
            raise UsageError(
                f"eps={self.eps:g} is larger than the whole range [0, 1] of a pixel. "
                f"Images are in [0, 1]: write eps={self.eps:g}/255."
            )

    def project(self, images: Tensor, origin: Tensor) -> Tensor:
        """The nearest allowed images (for L2: scaled back onto the ball, then clipped)."""
        moved = images - origin
        if self.norm == "Linf":
            moved = moved.clamp(-self.eps, self.eps)
        else:
            norm = moved.flatten(1).norm(dim=1).clamp_min(1e-12)
            moved = moved * (self.eps / norm).clamp(max=1.0).view(-1, *[1] * (moved.ndim - 1))
        return (origin + moved).clamp(*self.bounds)

    def random_start(self, origin: Tensor, noise: Tensor) -> Tensor:
        """Random allowed images, made from `noise` that is uniform in [-1, 1) per pixel: uniform in the L∞ ball; in L2,
        a random direction at a random radius."""
        noise = noise.to(origin.device, origin.dtype)
        if self.norm == "Linf":
            return self.project(origin + self.eps * noise, origin)
        direction = noise / noise.flatten(1).norm(dim=1).clamp_min(1e-12).view(-1, *[1] * (noise.ndim - 1))
        radius = noise.flatten(1)[:, 0].abs().view(-1, *[1] * (noise.ndim - 1))
        return self.project(origin + self.eps * radius * direction, origin)

    def distance(self, images: Tensor, origin: Tensor) -> Tensor:
        """How far each image is from its original [N]."""
        moved = (images - origin).flatten(1)
        return moved.abs().amax(1) if self.norm == "Linf" else moved.norm(dim=1)

    def contains(self, images: Tensor, origin: Tensor, tolerance: float = 1e-5) -> Tensor:
        """Whether each image is allowed [N], up to float rounding."""
        low, high = self.bounds
        inside = ((images >= low) & (images <= high)).flatten(1).all(1)
        near: Tensor = self.distance(images, origin) <= self.eps + tolerance
        return inside & near & torch.isfinite(images).flatten(1).all(1)
