"""Denoising: what ADP and DiffPure share: noise is added, then a learned denoiser takes it away in steps."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn

from alu.errors import UsageError
from alu.models.cards import load
from alu.purifiers.base import Traits
from alu.purifiers.stepwise import Stepwise
from alu.rng import normal_per_image


class Denoising(Stepwise):
    """Base of purifiers that add noise and take it away with a denoiser. A subclass writes `level`, `told` and `step`.

    Attackers who want a cheap gradient get that of one pass of the denoiser, which is also what a copy of no steps
    makes.

    Parameters
    ----------
    network
        A module with `denoise(images, level)`, where level [N] is the noise of each image or None if that is not known;
        or the name of a bundled one. `alu.models.score` builds one.
    steps
        How many steps are made, at least 1.
    seed
        The noise depends on the image and on this: the same image gets the same answer, another seed is another draw.

    Examples
    --------
    >>> issubclass(alu.purifiers.ADP, alu.purifiers.Denoising)
    True
    """

    told: bool
    """Whether the network is told the noise level."""

    def __init__(self, network: nn.Module | str, *, steps: int, seed: int) -> None:
        super().__init__(steps)
        who = type(self).__name__
        self.network = load(network) if isinstance(network, str) else network
        if not callable(getattr(self.network, "denoise", None)):
            raise UsageError(
                f"{who} needs a network with denoise(images, level), such as alu.models.score(); "
                f"{type(self.network).__name__} has none."
            )
        if steps < 1:
            raise UsageError(f"{who} needs at least 1 step; it was given {steps}.")
        self.seed = seed

    @property
    def traits(self) -> Traits:
        """Random and iterative, with an exact gradient for each draw."""
        return Traits(stochastic=True, iterative=True)

    @property
    def stride(self) -> int:
        """That of the network."""
        return int(getattr(self.network, "stride", 1))

    @property
    @abstractmethod
    def level(self) -> float:
        """Standard deviation of the noise that is added."""

    def begin(self, images: Tensor) -> Tensor:
        """The noisy images; of a copy without steps, their estimate in one pass."""
        noisy = images + self.level * self.noise(images, "start")
        return noisy if self.steps else self.estimate(noisy, self.level)

    def surrogate(self, images: Tensor) -> Tensor:
        """The noisy images, denoised in one pass."""
        padded = self.padded(images)
        return self.cropped(self.estimate(padded + self.level * self.noise(padded, "start"), self.level), images)

    def noise(self, images: Tensor, *names: object) -> Tensor:
        """Normal noise of the images' shape that depends on each image, the seed and the names."""
        return normal_per_image(images, tuple(images.shape[1:]), self.seed, type(self).__name__, *names)

    def estimate(self, noisy: Tensor, level: float) -> Tensor:
        """The network's estimate of the clean images behind noise of this level."""
        levels = torch.full((len(noisy),), level, dtype=noisy.dtype, device=noisy.device) if self.told else None
        estimate: Tensor = self.network.denoise(noisy, levels)  # type: ignore[operator]
        return estimate
