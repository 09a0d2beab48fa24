"""flatten: lowers the robust classifier's lead in a mixture until the standard one, fooled as well, decides."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor

from alu.attacks.base import Common
from alu.attacks.goals import Goal, Model, fooled
from alu.attacks.gradient import GradientAttack
from alu.errors import UsageError

ANY = -1
"""Aim at whichever other class is nearest at each step."""


class BothWrong(Goal):
    """The robust lead of another class plus `weight` times the standard one, which counts up to `reach`.

    Both are taken from logits, where no gradient vanishes; the robust ones without mean and deviation over classes,
    as the mixture reads them.
    """

    rows = ("labels", "target")

    def __init__(
        self, model: Model, images: Tensor, labels: Tensor, *, weight: float, reach: float, rank: int = ANY
    ) -> None:
        super().__init__(model, labels)
        self.parts, self.weight, self.reach = parts_of(model), weight, reach
        self.target: Tensor | None = None
        if rank != ANY:
            with torch.no_grad():
                others = self.leads(images).scatter(1, labels[:, None], float("-inf"))
            self.target = others.argsort(1, descending=True)[:, rank : rank + 1]

    def leads(self, images: Tensor) -> Tensor:
        """By how much each class leads the label, both classifiers together [N, classes]."""
        standard, robust = self.parts(images)
        robust = F.layer_norm(robust, robust.shape[1:])
        of_standard, of_robust = (logits - logits.gather(1, self.labels[:, None]) for logits in (standard, robust))
        return of_robust + self.weight * of_standard.clamp_max(self.reach)

    def loss(self, images: Tensor) -> Tensor:
        """The lead of the target, or of the best other class [N]."""
        leads = self.leads(images)
        if self.target is not None:
            return leads.gather(1, self.target).squeeze(1)
        return leads.scatter(1, self.labels[:, None], float("-inf")).amax(1)


class Flatten(GradientAttack):
    """PGD that lowers the robust classifier's lead inside an `alu.models.Mixed` while the standard one stays fooled.

    The gradient of the mixture itself vanishes where its standard part is certain; this attack reads the logits of
    both parts. Success is judged by the mixture, or by the defence around it.

    Parameters
    ----------
    weights
        How much the lead in the standard classifier counts, one search for each; 0 attacks the robust one alone.
    reach
        Up to which lead the standard classifier counts: beyond it, it is fooled for certain.
    targets
        After the nearest other class at each step, so many fixed ones are aimed at, the likeliest first.
    steps, restarts
        Steps of each search, and how often it is repeated from a random start; plus those of `Attack`.

    Examples
    --------
    >>> parts = alu.models.load("cifar10-standard"), alu.models.load("cifar10-at")
    >>> mixed = alu.models.Mixed(*parts, alpha=0.6, scale=1.0, shift=0.0, power=2.0)
    >>> adversarial = alu.attacks.Flatten(steps=1)(mixed, images, labels)
    """

    def __init__(
        self, *, weights: Sequence[float] = (0.03, 0.3, 0.0), reach: float = 3.0, targets: int = 3, steps: int = 50,
        restarts: int = 1, **common: Unpack[Common],
    ) -> None:  # fmt: skip
        super().__init__(steps=steps, restarts=restarts, loss="margin", keep="fooled", shrink=True, **common)
        if targets < 0 or not weights:
            raise UsageError(f"Flatten needs at least 1 weight and 0 targets; it was given {weights} and {targets}.")
        self.weights, self.reach, self.targets = tuple(weights), reach, targets
        self._make: Any = None

    def run(self, model: Model, images: Tensor, labels: Tensor, numbers: Sequence[int]) -> Tensor:
        """For each image the first search that breaks it, else the last one."""
        adversarial = images.clone()
        remaining = (~fooled(model, images, labels)).nonzero().flatten()
        for rank in range(ANY, min(self.targets, classes_of(model, images) - 1)):
            for weight in self.weights:
                if not len(remaining):
                    return adversarial
                self._make = partial(BothWrong, weight=weight, reach=self.reach, rank=rank)
                chosen = [numbers[place] for place in remaining.tolist()]
                found = self._allowed(
                    super().run(model, images[remaining], labels[remaining], chosen), images[remaining]
                )
                adversarial[remaining] = found
                remaining = remaining[~fooled(model, found, labels[remaining])]
        return adversarial

    def goal(self, model: Model, images: Tensor, labels: Tensor) -> Goal:
        """Both classifiers wrong, with the weight and the target of this search."""
        goal: Goal = self._make(model, images, labels)
        return goal


def parts_of(model: Any) -> Any:
    """The function that returns standard and robust logits of a mixture, or of the mixture inside a defence."""
    parts = getattr(model, "parts", None) or getattr(getattr(model, "classifier", None), "parts", None)
    if parts is None:
        raise UsageError(
            f"Flatten attacks a mixture of a standard and a robust classifier (alu.models.Mixed), or a defence around "
            f"one; it was given {type(model).__name__}. Use CWLinf or AutoAttack."
        )
    return parts


@torch.no_grad()
def classes_of(model: Any, images: Tensor) -> int:
    """The number of classes of a mixture."""
    return int(parts_of(model)(images[:1])[0].shape[1])
