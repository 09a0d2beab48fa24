"""Purifiers that move an image by the gradient of the classifier itself: Anti-Adversary and Hedge Defense."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alu.check import answers, check_logits
from alu.errors import UsageError
from alu.models.cards import load
from alu.purifiers.base import Purifier, Traits
from alu.rng import normal_per_image


class Guided(Purifier):
    """Base of purifiers that follow a classifier's gradient. A subclass writes `moved` and takes its own settings.

    Each image is moved independently. Attackers get the identity's gradient: the derivative of the move is left out.

    Parameters
    ----------
    classifier
        A module from images to logits, or the name of a bundled one.

    Examples
    --------
    >>> issubclass(alu.purifiers.Hedge, alu.purifiers.Guided)
    True
    """

    stands_in = False

    def __init__(self, classifier: nn.Module | str) -> None:
        super().__init__()
        self.classifier = load(classifier) if isinstance(classifier, str) else classifier

    @property
    def traits(self) -> Traits:
        """Iterative, and differentiable by a stand-in only."""
        return Traits(iterative=True, gradient="approximate")

    @abstractmethod
    def moved(self, images: Tensor) -> Tensor:
        """The images after the steps."""

    def run(self, images: Tensor) -> Tensor:
        """Moved images, without a graph."""
        return self.moved(images.detach())

    def surrogate(self, images: Tensor) -> Tensor:
        """The images themselves."""
        return images

    def gradient(self, images: Tensor, loss: Any) -> Tensor:
        """The gradient of `loss(logits)` [N] at the images; no parameter's gradient is touched."""
        with torch.enable_grad():
            at = images.detach().requires_grad_(True)
            (gradient,) = torch.autograd.grad(loss(self.logits(at)).sum(), at)
        return gradient.detach()

    def logits(self, images: Tensor) -> Tensor:
        """The classifier's logits [N, classes]."""
        return check_logits(
            answers(self.classifier, images), images.shape[0], f"The classifier of {type(self).__name__}"
        )


class AntiAdversary(Guided):
    """Towards more confidence in the class that an image already has (Alfarra et al. 2022).

    An image x is moved by d: from d = 0, `steps` times d -= step_size * sign ∇ CE(f(x + d), argmax f(x)).

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


class Hedge(Guided):
    """From a random point near the image, sign steps up the sum over all classes of the cross-entropy (Wu et al. 2021).

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
