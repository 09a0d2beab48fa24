"""stall: a wrong class at a point where the defence's own search makes no progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import Tensor

from alu.attacks.adaptive.confident import Aimed, TargetedAttack
from alu.attacks.adaptive.view import require_search
from alu.attacks.goals import Goal


class NoProgress(Aimed):
    """The target's margin at the image, less `weight` times what the deployed search takes of it."""

    def __init__(self, *arguments: Any, weight: float, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.weight = weight

    def loss(self, images: Tensor) -> Tensor:
        """The margin minus the weighted progress of the search, where the target leads; the margin alone before."""
        evidence = self.view.evidence(images)
        ahead = self.margin(evidence.post_logits)
        end = self.view.twin.detector.find(evidence, self.target)
        after = self.margin(self.nearby(images + (end - images.detach())))
        return ahead - self.weight * (ahead - after).clamp_min(0)


class Stall(TargetedAttack):
    """PGD towards points where the deployed search gets stuck: it follows whatever that search does, right or wrong.

    Parameters
    ----------
    weights
        How much the progress of the search counts; plus those of `TargetedAttack`.

    Examples
    --------
    >>> check = alu.Defense(classifier, detector=alu.detectors.Neighbourhood(steps=1), rule="abstain")
    >>> adversarial = alu.attacks.adaptive.Stall(steps=1, targets=1)(check, images, labels)
    """

    def __init__(self, *, weights: tuple[float, ...] = (0.5, 0.9), **settings: Any) -> None:
        super().__init__(**settings)
        self.weights = weights

    def goals(self, defense: Any) -> Sequence[Callable[..., Goal]]:
        """One for each weight."""
        require_search(defense, type(self).__name__)
        return [partial(NoProgress, weight=weight) for weight in self.weights]
