"""SignSteps: what SOAP and the reverse attack share: sign steps down a loss of each image, inside a ball around it."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from alu.errors import UsageError
from alu.purifiers.base import Traits
from alu.purifiers.stepwise import Stepwise


class SignSteps(Stepwise):
    """Base of purifiers that go down a loss by sign steps. A subclass writes `loss`.

    A sign has no useful derivative. What is differentiated is g / sqrt(g² + c²), with c the mean of abs(g) over an
    image, at the points that the sign steps visit.

    Parameters
    ----------
    eps
        How far a pixel may be moved.
    steps, step_size
        Number of steps and their size.

    Examples
    --------
    >>> issubclass(alu.purifiers.SOAP, alu.purifiers.SignSteps)
    True
    """

    stands_in = False

    def __init__(self, *, eps: float, steps: int, step_size: float) -> None:
        super().__init__(steps)
        if steps < 0 or not step_size > 0 or not 0 < eps <= 1:
            raise UsageError(
                f"{type(self).__name__} needs steps >= 0, step_size > 0 and 0 < eps <= 1; it was given {steps}, "
                f"{step_size:g} and {eps:g}."
            )
        self.eps, self.step_size = eps, step_size

    @property
    def traits(self) -> Traits:
        """Iterative, and differentiable by a stand-in for the sign."""
        return Traits(iterative=True, gradient="approximate")

    @abstractmethod
    def loss(self, at: Tensor, images: Tensor, number: int) -> Tensor:
        """What the steps lower, for each image [N], in the step of this number; `images` are as they came."""

    @property
    def radius(self) -> float | Tensor:
        """How far a pixel may be moved: for all images, or for each [N, 1, 1, 1]."""
        return self.eps

    def step(self, at: Tensor, images: Tensor, number: int) -> Tensor:
        """One sign step, projected into the ball and into [0, 1]."""
        return self._moved(at, images, self._slope(at, images, number, graph=False).sign())

    def smooth_step(self, at: Tensor, images: Tensor, number: int) -> Tensor:
        """The same with a smooth sign."""
        slope = self._slope(at, images, number, graph=True)
        size = slope.detach().abs().flatten(1).mean(1).clamp_min(1e-20)[:, None, None, None]
        return self._moved(at, images, slope / (slope.square() + size.square()).sqrt())

    def surrogate(self, images: Tensor) -> Tensor:
        """The images themselves."""
        return images

    def _slope(self, at: Tensor, images: Tensor, number: int, *, graph: bool) -> Tensor:
        with torch.enable_grad():
            at = at if graph else at.detach().requires_grad_(True)
            (slope,) = torch.autograd.grad(self.loss(at, images, number).sum(), at, create_graph=graph)
        return slope

    def _moved(self, at: Tensor, images: Tensor, direction: Tensor) -> Tensor:
        away = at - self.step_size * direction - images
        return (images + torch.clamp(away, -self.radius, self.radius)).clamp(0.0, 1.0)  # type: ignore[arg-type]
