"""unrolled-search: the gradient through a smooth copy of the defence's own search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from alu.attacks.adaptive.confident import Aimed, TargetedAttack
from alu.attacks.adaptive.view import require_search
from alu.attacks.goals import Goal
from alu.attacks.gradient import per_image

SMOOTH_STEPS = 3
"""Steps of the smooth copy; memory grows with each."""


class ThroughSearch(Aimed):
    """log p of the target at the image and where a smooth search from it ends; all steps are differentiated.

    The deployed search makes sign steps, whose derivative is zero. The copy makes steps along tanh(gradient / its mean
    size) on the cross-entropy, which have one.
    """

    def loss(self, images: Tensor) -> Tensor:
        """The sum of both."""
        radius = self.view.twin.detector.radius
        at, own = images, self.log_probability(self.answer(images))
        here = own
        for step in range(SMOOTH_STEPS):
            (gradient,) = torch.autograd.grad(here.sum(), at, create_graph=True)
            size = per_image(gradient.detach().abs().flatten(1).mean(1), images)
            moved = at - radius * (1 - step / SMOOTH_STEPS) * torch.tanh(gradient / size)
            at = images + (moved - images).clamp(-radius, radius)
            here = self.log_probability(self.nearby(at))
        return own + here


class UnrolledSearch(TargetedAttack):
    """PGD with the gradient through a smooth copy of the search around the image, for each likely wrong class.

    Parameters are those of `TargetedAttack`.

    Examples
    --------
    >>> check = alu.Defense(classifier, detector=alu.detectors.Neighbourhood(steps=1), rule="abstain")
    >>> adversarial = alu.attacks.adaptive.UnrolledSearch(steps=1, targets=1)(check, images, labels)
    """

    def goals(self, defense: Any) -> Sequence[Callable[..., Goal]]:
        """One."""
        require_search(defense, type(self).__name__)
        return (ThroughSearch,)
