"""A defence as an informed attacker uses it: its evidence, with a gradient and a number of steps they choose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from alu.attacks.copies import shallow, with_grad_mode
from alu.attacks.goals import Model
from alu.decision import Evidence
from alu.errors import UsageError

Budget = Literal["quick", "standard", "full"]
GoalMaker = Callable[[Any, Tensor, Tensor], Any]
"""(defence, images, labels) -> the goal of a search, or the images that it starts from."""


@dataclass(frozen=True)
class Level:
    """How an adaptive attack computes its gradient.

    Parameters
    ----------
    grad_mode
        The gradient mode.
    steps
        How many latent steps the differentiated twin of the defence makes; None for all.

    Examples
    --------
    >>> str(alu.attacks.adaptive.Level("unrolled", steps=5))
    'unrolled, N=5'
    """

    grad_mode: str = "unrolled"
    steps: int | None = None

    def __str__(self) -> str:
        return self.grad_mode if self.steps is None else f"{self.grad_mode}, N={self.steps}"


def twin(defense: Any, level: Level) -> Any:
    """A copy of the defence with another gradient and, if it makes latent steps, with fewer of them.

    Parameters
    ----------
    defense
        The `alu.Defense`.
    level
        The gradient mode, and the largest number of steps.

    Examples
    --------
    >>> alu.attacks.adaptive.twin(defense, alu.attacks.adaptive.Level("bpda")).grad_mode
    'bpda'
    """
    copied = with_grad_mode(defense, level.grad_mode)
    deployed = getattr(defense.purifier, "steps", None)
    if deployed is not None and level.steps is not None and level.steps < deployed:
        copied.purifier = shallow(defense.purifier)
        copied.purifier.steps = level.steps
    return copied


def levels(defense: Any, budget: Budget = "standard") -> list[Level]:
    """The gradients that adaptive attacks try, cheapest first. A purifier without steps has a single one.

    Parameters
    ----------
    defense
        The `alu.Defense`.
    budget
        "quick", "standard" or "full".

    Examples
    --------
    >>> [str(level) for level in alu.attacks.adaptive.levels(defense)]
    ['unrolled']
    """
    deployed = int(getattr(defense.purifier, "steps", 0))
    if deployed == 0:
        return [Level()]
    quick = [Level("surrogate", 0), Level("unrolled", min(5, deployed))]
    if budget == "quick":
        return quick
    one = [Level("unrolled", 1)] if deployed > 1 else []
    more = [*quick, *one, Level("surrogate", None), Level("bpda", None)]
    if budget == "full" and deployed > 5:
        more.append(Level("unrolled", None))
    return more


class View:
    """Evidence, logits and suspicion of a twin of a defence, with the gradient of its level."""

    def __init__(self, defense: Any, level: Level) -> None:
        self.defense, self.twin = defense, twin(defense, level)

    def evidence(self, images: Tensor) -> Evidence:
        """What detectors and rules decide from."""
        evidence: Evidence = self.twin.evidence(images)
        return evidence

    def before(self, images: Tensor) -> Tensor:
        """Π', the logits before purification, without the cost of purifying."""
        if self.twin.reference == "reconstruction":
            images = self.twin.purifier.reconstructed(images)
        logits: Tensor = self.twin.logits(images)
        return logits

    def answer(self, evidence: Evidence) -> Tensor:
        """The logits that the rule answers with."""
        logits: Tensor = self.twin.answer(evidence)
        return logits

    @property
    def grades(self) -> bool:
        """Whether the rule answers from the image itself, Π', where its tests find nothing."""
        return bool(self.twin.rule_.uses_state)

    @property
    def has_threshold(self) -> bool:
        """Whether there is a threshold to stay below."""
        detector = self.twin.detector
        return detector is not None and bool(detector.calibrated)

    @property
    def suspicious(self) -> float | None:
        """The rate of false alarms at whose threshold an image becomes suspicious, this defence's own; None where that
        is the threshold itself, because nothing is suspicious that is not flagged."""
        detector, rate = self.twin.detector, float(self.twin.suspicious)
        return rate if detector is not None and rate > detector.false_alarm else None

    def excess(self, evidence: Evidence, rate: float | None = None) -> Tensor:
        """How far the suspicion score lies above its threshold [N], or above that of another `rate` of false alarms; -1
        if there is no threshold."""
        detector = self.twin.detector
        if not self.has_threshold:
            return torch.full((len(evidence),), -1.0, device=evidence.images.device)
        score: Tensor = detector.score(evidence)
        above: Tensor = score - detector.thresholds(evidence, rate).to(score)
        return above

    def threshold_size(self, evidence: Evidence, rate: float | None = None) -> Tensor:
        """The absolute value of the threshold [N], the unit in which an excess is small or large; 1 without one.

        The score of a search is a margin, and its threshold 0: there the spread of the logits is the unit.
        """
        detector = self.twin.detector
        if not self.has_threshold:
            return torch.ones(len(evidence), device=evidence.images.device)
        if detector.traits.search:
            return evidence.post_logits.detach().std(1).clamp_min(1e-6)
        limits: Tensor = detector.thresholds(evidence, rate).abs().clamp_min(1e-6).to(evidence.images)
        return limits

    def corruption(self, evidence: Evidence) -> Tensor:
        """How far the two statistics of the second test lie above their limits, as shares of these [N, 2]."""
        residual = self.twin.residual
        values: Tensor = residual.statistics(evidence)
        limits: Tensor = residual.limits_.to(values)
        return (values - limits) / limits

    def unusual(self, evidence: Evidence) -> tuple[Tensor, Tensor]:
        """How far an image is from being answered from itself by a rule that grades, and the unit of this, both [N]:
        its score must not be suspicious, and it must not be noisy."""
        size = self.threshold_size(evidence, self.suspicious)
        noise = self.corruption(evidence)[:, 0] * size
        return torch.maximum(self.excess(evidence, self.suspicious), noise.to(size)), size

    def shortfall(self, evidence: Evidence) -> Tensor:
        """How far the score lies below a value just above the threshold [N]; 0 where it does not."""
        return (0.05 * self.threshold_size(evidence) - self.excess(evidence)).clamp_min(0)


def score_matters(defense: Any) -> bool:
    """Whether searches that differ only in how they treat the score can end differently: the rule uses the score, or
    the defence is random, so that no two searches are the same."""
    traits = getattr(defense, "traits", None)
    return traits is None or bool(traits.detector or traits.stochastic)


def smoothly_purified(defense: Any) -> Model:
    """f(D(E(x))), or f after a filter's smooth stand-in: the model that the paper attacks as white-box."""

    def logits(images: Tensor) -> Tensor:
        output: Tensor = defense.logits(defense.purifier.smooth(images))
        return output

    return logits


def require_evidence(model: Any, who: str) -> None:
    """Refuse a model that is not a defence, which purifies and compares."""
    for name in ("evidence", "decide", "purifier", "logits"):
        if not hasattr(model, name):
            raise UsageError(
                f"{who} attacks an alu.Defense, which purifies and compares; {type(model).__name__} has no {name!r}. "
                "Use PGD or AutoAttack, or wrap it: alu.Defense(classifier, purifier, detector)."
            )


def require_search(defense: Any, who: str) -> None:
    """Refuse a defence whose detector does not search around the image."""
    if not hasattr(defense.detector, "find"):
        raise UsageError(
            f"{who} aims at a detector's search around the image, and {type(defense.detector).__name__} makes none. "
            "Use Confident or Stealth, or alu.detectors.Neighbourhood."
        )


def other_class(logits: Tensor, labels: Tensor, rank: int) -> Tensor:
    """The `rank`-th highest class but the label [N]; the last one if there are fewer."""
    others = logits.scatter(1, labels[:, None], float("-inf")).argsort(1, descending=True)[:, :-1]
    return others[:, min(rank, others.shape[1] - 1)]


def entry(logits: Tensor, at: Tensor) -> Tensor:
    """The logit of one class per image [N]."""
    return logits.gather(1, at[:, None]).squeeze(1)


def without_post_gradient(evidence: Evidence) -> Evidence:
    """The same evidence, with purified images and their logits as constants."""
    return replace(evidence, purified=evidence.purified.detach(), post_logits=evidence.post_logits.detach())
