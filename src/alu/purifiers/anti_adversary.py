"""Anti-Adversary (Alfarra et al. 2022): move an image towards more confidence in the class it already has."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from alu.errors import UsageError
from alu.purifiers.guided import Guided


class AntiAdversary(Guided):
    """Moves each image x by d: from d = 0, `steps` times d -= step_size * sign ∇ CE(f(x + d), argmax f(x)).

    Parameters
    ----------
    steps, step_size
        Number of steps and their size; `classifier` is that of `Guided`.

    Examples
    --------
    >>> purified = alu.purifiers.AntiAdversary(classifier, steps=1)(images)
    """

    def __init__(self, classifier: nn.Module | str, *, steps: int = 2, step_size: float = 0.15) -> None:
        super().__init__(classifier)
        if steps < 0 or not step_size > 0:
            raise UsageError(f"AntiAdversary needs steps >= 0 and step_size > 0; it was given {steps}, {step_size:g}.")
        self.steps, self.step_size = steps, step_size

    def moved(self, images: Tensor) -> Tensor:
        """The images after the steps; pixels may leave [0, 1] on the way, the base class clips the result."""
        answer = self.logits(images).argmax(1)
        at = images
        for _ in range(self.steps):
            slope = self.gradient(at, lambda logits: F.cross_entropy(logits, answer, reduction="none"))
            at = at - self.step_size * slope.sign()
        return at
