"""Residual: whether what purification took away is too large for an attack; such an image is corrupted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn

from alu.conformal import clean_residual, numbers, residual_limits
from alu.decision import Evidence
from alu.errors import UsageError

NORMAL = 0.6745
"""The median of the absolute value of standard normal noise."""


class Residual(nn.Module):
    """The second test of a defence: x - P(x) of an attack of size `eps` stays small, that of heavy noise does not.

    Two statistics of each image are compared with those of clean images. How noisy it is all over: the median absolute
    value of the diagonal Haar band over 0.6745, the standard deviation of normal noise. Its worst pixel: the largest
    absolute value. An attack adds at most `eps` to each pixel, so that much is left above the clean values: in
    quadrature for the first, as for independent noise, and as it is for the second.
    """

    clean_: Tensor
    """The two statistics that few clean images exceed, in float64; empty before calibration."""

    def __init__(self, eps: float = 8 / 255) -> None:
        super().__init__()
        if not 0.0 <= eps <= 1.0:
            raise UsageError(f"eps is the largest change of a pixel that an attack makes, in 0 to 1; it is {eps}.")
        self.eps = eps
        self.register_buffer("clean_", torch.empty(0, dtype=torch.float64))

    @property
    def calibrated(self) -> bool:
        """Whether there are limits."""
        return self.clean_.numel() > 0

    @property
    def limits_(self) -> Tensor:
        """The largest values of the two statistics that an attack may have [2]."""
        return torch.from_numpy(residual_limits(self.clean_.numpy(), self.eps))

    def learn(self, statistics: Tensor | None) -> None:
        """Learn the limits from the statistics of clean images [N, 2]; None where features are purified, which are no
        images: there are no limits then."""
        self.clean_ = torch.empty(0, dtype=torch.float64)
        if statistics is not None:
            self.clean_ = torch.from_numpy(clean_residual(numbers(statistics.detach().cpu())))

    def statistics(self, evidence: Evidence) -> Tensor:
        """How noisy each image is all over, and its worst pixel [N, 2]; differentiable."""
        left = evidence.images - evidence.purified
        band = diagonal(left).abs().flatten(1)
        noise = band.median(1).values if band.shape[1] else left.new_zeros(len(left))
        return torch.stack([noise / NORMAL, left.abs().flatten(1).amax(1)], 1)

    @torch.no_grad()
    def test(self, evidence: Evidence) -> tuple[Tensor, Tensor]:
        """Whether each image is noisy all over, and whether some of its pixels are spoilt, both [N]."""
        if not self.calibrated:
            none = torch.zeros(len(evidence), dtype=torch.bool, device=evidence.images.device)
            return none, none
        above = self.statistics(evidence).detach().to("cpu", torch.float64) > self.limits_
        noisy, specked = above.to(evidence.images.device).unbind(1)
        return noisy, specked

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move or convert the module; the limits stay in float64 on the CPU, where they are compared."""
        kept = self.clean_
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.clean_ = kept
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *rest: object) -> None:
        """Give the limits the size they were saved with; what was saved before there were any has none."""
        saved = state_dict.setdefault(f"{prefix}clean_", torch.empty(0, dtype=torch.float64))
        self.clean_ = torch.empty_like(saved, device="cpu")
        super()._load_from_state_dict(state_dict, prefix, *rest)


def diagonal(images: Tensor) -> Tensor:
    """The diagonal Haar band [N, C, H/2, W/2]: edges cancel in it, noise does not. A last odd row or column is cut."""
    height, width = (side - side % 2 for side in images.shape[2:])
    rows = images[:, :, 0:height:2, :width] - images[:, :, 1:height:2, :width]
    return (rows[..., 0::2] - rows[..., 1::2]) / 2
