"""Guided: purifiers that move an image by the gradient of the classifier itself."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from alu.check import answers, check_logits
from alu.models.cards import load
from alu.purifiers.base import Purifier, Traits


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
        return check_logits(answers(self.classifier, images), len(images), f"The classifier of {type(self).__name__}")
