"""denial: make a refusing defence refuse a picture that it answers correctly, or answer it wrongly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from alu.attacks.adaptive.base import AdaptiveAttack, ViewGoal
from alu.attacks.adaptive.transfer import OnAnother
from alu.attacks.base import Attack
from alu.attacks.copies import RESUBMISSIONS, draws_of
from alu.attacks.goals import Model, answered, margin, refuses_by_search
from alu.attacks.gradient import CWLinf


@torch.no_grad()
def denied(model: Model, images: Tensor, labels: Tensor) -> Tensor:
    """Whether a new answer is refused or wrong, for each image [N]."""
    answer, accepted, _ = answered(model, images)
    return ~accepted | (answer != labels)


class NotRight(ViewGoal):
    """The score above its threshold or, with `by_answer`, the margin of a wrong answer."""

    def __init__(self, *arguments: Any, by_answer: bool, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.by_answer = by_answer

    def loss(self, images: Tensor) -> Tensor:
        """One of the two."""
        evidence = self.view.evidence(images)
        return margin(evidence.post_logits, self.labels) if self.by_answer else self.view.excess(evidence)

    def reached(self, images: Tensor) -> Tensor:
        """Whether the deployed answer is refused or wrong [N]."""
        return denied(self.model, images, self.labels)


class Halfway(OnAnother):
    """A wrong answer within eps + `radius` of the image, and the point towards it from which a search of that radius
    still reaches it: the classifier's gradient is enough, and no step costs a search."""

    def __init__(self, source: Model, attack: Attack, radius: float) -> None:
        super().__init__(source, CWLinf(**{**attack.common, "eps": attack.eps + radius}, steps=attack.steps))  # type: ignore[attr-defined]
        self.share = attack.eps / (attack.eps + radius)

    def run(self, model: Model, images: Tensor, labels: Tensor, numbers: Sequence[int]) -> Tensor:
        """Points on the way to the classifier's adversarial images."""
        return images + self.share * (super().run(model, images, labels, numbers) - images)


class Denial(AdaptiveAttack):
    """Raises the score of a picture until it is refused, or its margin until the answer is wrong; where the defence
    refuses by a search, it first goes towards the nearest other answer until that search finds it.

    Its success is that the picture is not answered correctly, so it measures who can be silenced, not who can be
    fooled. Parameters are those of `AdaptiveAttack`.

    Examples
    --------
    >>> check = alu.Defense(classifier, detector=alu.detectors.Neighbourhood(steps=1), rule="abstain")
    >>> silenced = alu.attacks.adaptive.Denial(eps=1 / 255, steps=1)(check, images, labels)
    """

    def tries(self, defense: Any) -> Iterable[Attack]:
        """The way towards another answer, where a search would find it; then the margin, and the score. With budget
        "quick" the first stands for the others: each step on a search's score costs a search."""
        search = refuses_by_search(defense) and self.norm == "Linf"
        if search:
            yield Halfway(defense.logits, self, defense.detector.radius)
        for level in () if search and self.budget == "quick" else self.chosen_levels(defense):
            for by_answer in (True, False):
                yield self.search(partial(NotRight, level=level, by_answer=by_answer), random_start=False)

    def broken(self, model: Any, images: Tensor, labels: Tensor) -> Tensor:
        """Whether the picture is refused or answered wrongly [N]; by a random defence, in any of several draws."""
        draws = draws_of(model, RESUBMISSIONS if self.averaged > 1 else 1)
        return torch.stack([denied(drawn, images, labels) for drawn in draws]).any(0)
