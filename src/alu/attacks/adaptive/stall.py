"""stall: a wrong class at a point where the defence's own search makes no progress."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from torch import Tensor

from alu.attacks.adaptive.base import AdaptiveAttack
from alu.attacks.adaptive.confident import TARGETS, Aimed
from alu.attacks.adaptive.view import entry, require_search
from alu.attacks.base import Attack


class NoProgress(Aimed):
    """The target's margin at the image, less `weight` times what the deployed search takes of it."""

    def __init__(self, defense: Any, images: Tensor, labels: Tensor, *, rank: int, weight: float) -> None:
        super().__init__(defense, images, labels, rank=rank)
        self.weight = weight

    def loss(self, images: Tensor) -> Tensor:
        """The margin minus the weighted progress, where the target leads; the margin alone before."""
        evidence = self.view.evidence(images)
        ahead = self._margin(evidence.post_logits)
        end = self.view.twin.detector.find(evidence, self.target)
        after = self._margin(self.view.before(images + (end - images.detach())))
        taken = (ahead - after).clamp_min(0)
        return ahead - self.weight * taken

    def _margin(self, logits: Tensor) -> Tensor:
        return entry(logits, self.target) - logits.scatter(1, self.target[:, None], float("-inf")).amax(1)


class Stall(AdaptiveAttack):
    """PGD towards points where the deployed search gets stuck: it follows whatever that search does, right or wrong.

    Parameters
    ----------
    targets
        How many wrong classes are aimed at; by default 3, 5 or 9, depending on the budget.
    weights
        How much the progress of the search counts; plus those of `AdaptiveAttack`.

    Examples
    --------
    >>> check = alu.Defense(classifier, detector=alu.detectors.Neighbourhood(steps=1), rule="abstain")
    >>> adversarial = alu.attacks.adaptive.Stall(steps=1, targets=1)(check, images, labels)
    """

    def __init__(self, *, targets: int | None = None, weights: tuple[float, ...] = (0.5, 0.9), **settings: Any) -> None:
        super().__init__(**settings)
        self.targets, self.weights = TARGETS[self.budget] if targets is None else targets, weights

    def tries(self, defense: Any) -> Iterable[Attack]:
        """Every target with every weight."""
        require_search(defense, type(self).__name__)
        for weight in self.weights:
            for rank in range(self.targets):
                yield self.search(partial(NoProgress, rank=rank, weight=weight), shrink=True)
