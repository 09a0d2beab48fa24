"""stealth: make the answer wrong with a score below the threshold; the main attack on abstention and on grading."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import product
from typing import Any, Literal

import torch
from torch import Tensor

from alu.attacks.adaptive.base import AdaptiveAttack, GoalSearch, ViewGoal
from alu.attacks.adaptive.view import GoalMaker, Level, score_matters
from alu.attacks.base import Attack
from alu.attacks.goals import gradient_of, margin
from alu.attacks.gradient import per_image, where

Combination = Literal["selective", "orthogonal", "sum"]
SPARE = 0.1
"""How far below the threshold the score should end, as a share of the threshold."""


class FoolAndHide(ViewGoal):
    """Raise the margin of Π, or if `itself` that of Π', and lower the score: in turns ("selective"), in turns along
    directions that do not change the other ("orthogonal"), or as a weighted sum ("sum")."""

    def __init__(
        self, defense: Any, images: Tensor, labels: Tensor, *, level: Level, how: Combination, weight: float = 1.0,
        itself: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(defense, images, labels, level=level)
        self.how, self.weight, self.itself = how, weight, itself

    def terms(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The margin, the score above the threshold, and the distance that it should have below, all [N]."""
        evidence = self.view.evidence(images)
        if self.itself:
            above, size = self.view.unusual(evidence)
            return margin(evidence.pre_logits, self.labels), above, SPARE * size
        spare = SPARE * self.view.threshold_size(evidence)
        return margin(evidence.post_logits, self.labels), self.view.excess(evidence), spare

    def parts(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The margin, and by how much the score must fall, both [N]."""
        lead, above, spare = self.terms(images)
        return lead, above + spare

    def loss(self, images: Tensor) -> Tensor:
        """The margin minus the weighted excess."""
        lead, excess = self.parts(images)
        return lead - self.weight * excess.clamp_min(0)

    def ascent(self, images: Tensor, who: str) -> tuple[Tensor, Tensor]:
        """One gradient per image: the margin's while the answer is right, then the score's while that is too high; or
        that of the sum.

        The loss returned is the smaller of the margin and the distance below the threshold: success needs both.
        """
        lead, above, spare = self.terms(images)
        excess = above + spare
        rank = torch.minimum(lead, -above.to(lead)).detach() if self.view.has_threshold else lead.detach()
        if self.how == "sum":
            value = lead - self.weight * excess.clamp_min(0)
            return gradient_of(value.sum(), images, who), rank
        if not excess.requires_grad:
            return gradient_of(lead.sum(), images, who), rank
        towards = gradient_of(lead.sum(), images, who, keep_graph=True)
        away = -gradient_of(excess.sum(), images, who)
        if self.how == "orthogonal":
            towards, away = without(towards, away), without(away, towards)
        # A little beyond the boundary, so that lowering the score does not make the answer right again.
        wrong = (lead.detach() > 0.5) & (excess.detach() > 0)
        return where(wrong, away, towards), rank


def without(vector: Tensor, other: Tensor) -> Tensor:
    """The part of each image's vector that is orthogonal to the other."""
    unit = other / per_image(other.flatten(1).norm(dim=1), other)
    share = (vector * unit).flatten(1).sum(1)
    return vector - share.view(-1, *[1] * (vector.ndim - 1)) * unit


class Stealth(AdaptiveAttack):
    """Makes Π wrong and keeps the score below the threshold: by selective, orthogonal and weighted searches, from the
    image, from a point just beyond the decision boundary, and from an image that the purifier hardly changes. Where a
    rule answers from the image itself, as "graded" does, first makes Π' wrong and keeps the image unsuspicious.

    Parameters
    ----------
    weights
        Weights of the score in the weighted searches; plus those of `AdaptiveAttack`.

    Examples
    --------
    >>> adversarial = alu.attacks.adaptive.Stealth(steps=1, weights=(1.0,))(defense, images, labels)
    """

    def __init__(self, *, weights: Sequence[float] = (0.01, 0.1, 1.0, 10.0), **settings: Any) -> None:
        super().__init__(**settings)
        self.weights = tuple(weights)

    def tries(self, defense: Any) -> Iterable[Attack]:
        """All kinds of search at each level; the two other starts with the orthogonal kind, or with every kind if the
        budget is "full". If the score does not matter, only the margin from the three starts."""
        hidden = score_matters(defense)
        kinds: list[tuple[Combination, float]] = [("orthogonal", 1.0), ("selective", 1.0)]
        kinds += [("sum", weight) for weight in self.weights]
        aims = (True, False) if defense.rule_.uses_state else (False,)
        for level, itself in product(self.chosen_levels(defense), aims):
            search = partial(self._goal_search, level, itself=itself)
            starts = (self._boundary(level, itself), on_manifold)
            if not hidden:
                for begin in (None, *starts):
                    yield search("sum", 0.0, begin)
                continue
            for how, weight in kinds[:2]:
                yield search(how, weight)
            for begin in starts:
                yield search("orthogonal", begin=begin)
            for how, weight in kinds[2:]:
                yield search(how, weight)
            for how, weight in kinds[1:] if self.budget == "full" else ():
                for begin in starts:
                    yield search(how, weight, begin)

    def _goal_search(
        self, level: Level, how: Combination, weight: float = 1.0, begin: GoalMaker | None = None, *,
        itself: bool = False,
    ) -> GoalSearch:  # fmt: skip
        make = partial(FoolAndHide, level=level, how=how, weight=weight, itself=itself)
        size, steps = self.threat.eps / 8, 2 * self.steps
        return self.search(make, steps=steps, step_size=size, shrink=True, begin=begin, random_start=False)

    def _boundary(self, level: Level, itself: bool = False) -> GoalMaker:
        """A start where the answer is just wrong, inside a quarter of the ball."""

        def begin(defense: Any, images: Tensor, labels: Tensor) -> Tensor:
            make = partial(FoolAndHide, level=level, how="sum", weight=0.0, itself=itself)
            # One search is enough: a restart already begins at another point.
            near = self.search(make, eps=self.threat.eps / 4, keep="last", random_start=False, restarts=1)
            return near(defense, images, labels)

        return begin


def on_manifold(defense: Any, images: Tensor, labels: Tensor, *, steps: int = 20) -> Tensor:
    """Wrongly answered images that the purifier hardly changes, by a search in a VAE's code; P(x) without a VAE."""
    codec = getattr(defense.purifier, "codec", None)
    if codec is None:
        with torch.no_grad():
            purified: Tensor = defense.purifier(images)
        return purified
    # A VAE needs sides that its stride divides: the purifier pads, and cuts the padding off again.
    wide = defense.purifier.padded(images)
    with torch.no_grad():
        code = codec.encode(wide)[0]
    mean, square = torch.zeros_like(code), torch.zeros_like(code)
    for _ in range(steps):
        code = code.detach().requires_grad_(True)
        output = defense.purifier.cropped(codec.decode(code), images)
        distance = (output - images).flatten(1).square().sum(1)
        lead = margin(defense.logits(output.clamp(0.0, 1.0)), labels)
        gradient = gradient_of((lead.clamp(max=2.0) - distance).sum(), code, "Stealth")
        mean, square = 0.9 * mean + 0.1 * gradient, 0.9 * square + 0.1 * gradient.square()
        code = code + 0.05 * mean / (square.sqrt() + 1e-8)
    with torch.no_grad():
        decoded: Tensor = defense.purifier.cropped(codec.decode(code), images)
    return decoded
