"""ADP: noise, then steps along a learned score whose size adapts, and the mean of several draws (Yoon et al. 2021)."""

from __future__ import annotations

from torch import Tensor, nn

from alu.errors import UsageError
from alu.purifiers.denoising import Denoising

PROBE = 0.01
"""How far along the score, as a share of it, the network is asked again to find how the score changes."""


class ADP(Denoising):
    """Adaptive denoising purification: noise is added, then each step follows a score s (Yoon et al. 2021).

    s is the denoised image minus the present one, by a network that is not told the noise. Each image's step is
    share · δ / (1 - s·s'/s·s) times s, with s' the score at x + δ s: where the density is Gaussian, `share` of the way
    to its mean; never beyond the denoised image. An image stops when its step would be smaller than `stop`. A defence
    averages the logits of all draws.

    Parameters
    ----------
    noise_level
        Standard deviation of the noise that is added.
    share
        How much of the way each step goes, above 0 and at most 1. The authors have 0.05 and another network.
    stop
        Root of the mean square of the smallest step.
    draws
        How many noisy copies are purified; `network`, `steps` and `seed` are those of `Denoising`.

    Examples
    --------
    >>> purified = alu.purifiers.ADP(alu.models.score(width=8), steps=1)(images)
    """

    told = False

    def __init__(
        self, network: nn.Module | str = "cifar10-score", *, noise_level: float = 0.25, steps: int = 10,
        share: float = 0.3, stop: float = 1e-3, draws: int = 10, seed: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(network, steps=steps, seed=seed)
        if not (noise_level > 0 and 0 < share <= 1 and stop >= 0 and draws >= 1):
            raise UsageError(
                "ADP needs noise_level > 0, 0 < share <= 1, stop >= 0 and at least 1 draw; it was given "
                f"{noise_level:g}, {share:g}, {stop:g} and {draws}."
            )
        self.noise_level, self.share, self.stop, self.draws = noise_level, share, stop, draws

    @property
    def level(self) -> float:
        """Standard deviation of the noise that is added."""
        return self.noise_level

    def step(self, at: Tensor, images: Tensor, number: int) -> Tensor:
        """One step of adapted size; an image whose step would be too small stays."""
        score = self.score(at)
        turned = per_image(score * self.score(at + PROBE * score)) / per_image(score * score).clamp_min(1e-20)
        # Never beyond the denoised image, also where the score does not fall along itself: then no mode lies ahead.
        least = self.share * PROBE
        moved = least / (1.0 - turned).clamp_min(least) * score
        goes = per_image(moved.detach().square()) > self.stop**2 * moved[0].numel()
        return at + moved * goes

    def score(self, at: Tensor) -> Tensor:
        """The way to the denoised image."""
        return self.estimate(at, self.level) - at


def per_image(values: Tensor) -> Tensor:
    """Sums over all values of each image [N, 1, 1, 1]."""
    return values.flatten(1).sum(1)[:, None, None, None]
