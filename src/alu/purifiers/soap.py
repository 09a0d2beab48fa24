"""SOAP: moves an image until the classifier says the same of another view of it (Shi et al. 2021)."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from alu.check import answers, check_logits
from alu.errors import UsageError
from alu.models.cards import load
from alu.purifiers.base import GradMode, Purification
from alu.purifiers.sign_steps import SignSteps
from alu.purifiers.views import View


class SOAP(SignSteps):
    """Sign steps down the distance between the logits of an image and of its mirrored middle (Shi et al. 2021).

    The steps are made inside balls of growing radius, 0 among them; for each image the radius is kept after which the
    mean squared distance is least. It is meant for a classifier that was trained to say the same of both
    (`alu train cifar10-soap`), and it is deterministic.

    Parameters
    ----------
    classifier
        A module from images to logits, or the name of a bundled one: the classifier that is defended.
    steps, step_size
        Number of steps and their size.
    radii
        The radii are 0 to so many times `step_size`. The authors have 10; beyond `steps` the ball no longer matters.

    Examples
    --------
    >>> purified = alu.purifiers.SOAP(classifier, steps=1, radii=1)(images)
    """

    def __init__(
        self, classifier: nn.Module | str, *, steps: int = 5, step_size: float = 4 / 255, radii: int = 5
    ) -> None:
        if radii < 1:
            raise UsageError(f"SOAP needs at least 1 radius beside 0; it was given {radii}.")
        super().__init__(eps=min(1.0, radii * step_size), steps=steps, step_size=step_size)
        self.classifier, self.radii = load(classifier) if isinstance(classifier, str) else classifier, radii
        self._chosen: Tensor | None = None

    @property
    def radius(self) -> float | Tensor:
        """That of the largest ball, or those that were chosen."""
        return self.eps if self._chosen is None else self._chosen

    def loss(self, at: Tensor, images: Tensor, number: int) -> Tensor:
        """Mean squared distance of the logits of both views [N]."""
        return self.inconsistency(at)

    def inconsistency(self, images: Tensor) -> Tensor:
        """How differently the classifier sees an image and its mirrored middle [N]."""
        own, other = (self._logits(seen) for seen in (images, View.central(images).of(images)))
        return (own - other).square().mean(1)

    def run(self, images: Tensor) -> Tensor:
        """The images inside the ball of each one's best radius."""
        return self._searched(images)[0]

    def differentiated(self, images: Tensor, grad_mode: GradMode, reconstruct: bool) -> Purification:
        """The same, with the gradient of the steps inside the chosen balls, or of the identity."""
        if grad_mode == "surrogate":
            return super().differentiated(images, grad_mode, reconstruct)
        within = self._within(self._searched(images.detach())[1])
        return Purification(self._clipped(super(SOAP, within).run(images)))

    @torch.no_grad()
    def _searched(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The best images and the radius of each [N, 1, 1, 1]."""
        best, least = images, self.inconsistency(images)
        chosen = torch.zeros_like(least)
        for number in range(1, self.radii + 1):
            radius = torch.full_like(least, min(1.0, number * self.step_size))
            moved = super(SOAP, self._within(radius[:, None, None, None])).run(images)
            loss = self.inconsistency(moved)
            better = loss < least
            best = torch.where(better[:, None, None, None], moved, best)
            least, chosen = torch.where(better, loss, least), torch.where(better, radius, chosen)
        return best, chosen[:, None, None, None]

    def _within(self, radius: Tensor) -> SOAP:
        """A copy whose steps stay inside these balls."""
        one = copy.copy(self)
        one._chosen = radius
        return one

    def _logits(self, images: Tensor) -> Tensor:
        return check_logits(answers(self.classifier, images), len(images), "The classifier of SOAP")
