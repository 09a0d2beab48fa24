"""Hedge Defense (Wu et al. 2021): from a random point nearby, raise the cross-entropy of all classes at once."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from alu.errors import UsageError
from alu.purifiers.base import Traits
from alu.purifiers.guided import Guided
from alu.rng import normal_per_image


class Hedge(Guided):
    """From a random point near the image, sign steps up the sum over all classes of the cross-entropy.

    Parameters
    ----------
    eps, steps, step_size
        How far a pixel may be moved, number of steps and their size; `classifier` is that of `Guided`.
    seed
        The start depends on the image and on this: the same image gets the same answer, another seed is another draw.

    Examples
    --------
    >>> purified = alu.purifiers.Hedge(classifier, steps=1)(images)
    """

    def __init__(
        self, classifier: nn.Module | str, *, eps: float = 8 / 255, steps: int = 20, step_size: float = 4 / 255,
        seed: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(classifier)
        if steps < 0 or not step_size > 0 or not 0 < eps <= 1:
            raise UsageError(
                f"Hedge needs steps >= 0, step_size > 0 and 0 < eps <= 1; it was given {steps}, {step_size:g}, {eps:g}."
            )
        self.eps, self.steps, self.step_size, self.seed = eps, steps, step_size, seed

    @property
    def traits(self) -> Traits:
        """Iterative, random (it starts from a random point), and differentiable only by a stand-in."""
        return Traits(stochastic=True, iterative=True, gradient="approximate")

    def moved(self, images: Tensor) -> Tensor:
        """The images after the steps, inside the ball around the originals and inside [0, 1]."""
        noise = normal_per_image(images, tuple(images.shape[1:]), self.seed, "hedge")
        uniform = torch.special.erf(noise / 2**0.5)  # erf turns normal noise into uniform noise in (-1, 1)
        at: Tensor = (images + self.eps * uniform).clamp(0, 1)
        for _ in range(self.steps):
            slope = self.gradient(at, lambda logits: -logits.log_softmax(1).sum(1))
            at = at + self.step_size * slope.sign()
            at = torch.minimum(torch.maximum(at, images - self.eps), images + self.eps).clamp(0, 1)
        return at
