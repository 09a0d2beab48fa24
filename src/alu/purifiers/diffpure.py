"""DiffPure: noise up to a time of a diffusion, then its reverse process back to an image (Nie et al. 2022)."""

from __future__ import annotations

import math

from torch import Tensor, nn

from alu.errors import UsageError
from alu.purifiers.denoising import Denoising

RATES = (0.1, 20.0)
"""The first and the last rate of the variance-preserving diffusion, which grow evenly from time 0 to 1."""


class DiffPure(Denoising):
    """The image is diffused to `time`, then a learned reverse process leads back (Nie et al. 2022).

    The process is the authors' variance-preserving one, written for the rescaled images, whose noise only grows. Each
    step goes from level a to the lower level b: to the mean c + (b/a)² (x - c), with c the denoised image, plus noise
    of size b sqrt(1 - (b/a)²). The last step ends at level 0, in c.

    Parameters
    ----------
    time
        How far the image is diffused, above 0 and at most 1; 0.1 is noise of 0.17.
    steps
        In how many steps, evenly spaced in time, the reverse process comes back; the authors have 100. `network` and
        `seed` are those of `Denoising`.

    Examples
    --------
    >>> purified = alu.purifiers.DiffPure(alu.models.score(width=8), steps=2)(images)
    """

    told = True

    def __init__(
        self, network: nn.Module | str = "cifar10-score", *, time: float = 0.1, steps: int = 100, seed: int = 0
    ) -> None:
        super().__init__(network, steps=steps, seed=seed)
        if not 0 < time <= 1:
            raise UsageError(f"DiffPure needs a time above 0 and at most 1, such as 0.1; it was given {time:g}.")
        self.time = time

    @property
    def level(self) -> float:
        """The noise at `time`."""
        return level_at(self.time)

    def step(self, at: Tensor, images: Tensor, number: int) -> Tensor:
        """One step of the reverse process."""
        high, low = (level_at(self.time * (1.0 - place / self.steps)) for place in (number, number + 1))
        kept = (low / high) ** 2
        clean = self.estimate(at, high)
        mean = clean + kept * (at - clean)
        return mean + low * math.sqrt(1.0 - kept) * self.noise(images, number) if low else mean


def level_at(time: float) -> float:
    """Noise over signal at a time of the diffusion, for images in [0, 1]: the process itself works in [-1, 1]."""
    grown = RATES[0] * time + 0.5 * (RATES[1] - RATES[0]) * time**2
    return 0.5 * math.sqrt(math.expm1(grown))
