"""A defence as an informed attacker sees it: its evidence, with a gradient and a number of steps of their choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from alu.attacks.copies import shallow, with_grad_mode
from alu.attacks.goals import Model, margin
from alu.decision import Evidence
from alu.errors import UsageError


@dataclass(frozen=True)
class Level:
    """How an attack takes its gradient: the mode, and how many latent steps the twin it aims at makes (None: all)."""

    grad_mode: str = "unrolled"
    steps: int | None = None

    def __str__(self) -> str:
        return self.grad_mode if self.steps is None else f"{self.grad_mode}, N={self.steps}"


def twin(defense: Any, level: Level) -> Any:
    """The same defence with another gradient and, where it makes steps, with at most `level.steps` of them."""
    made = with_grad_mode(defense, level.grad_mode)
    deployed = getattr(defense.purifier, "steps", None)
    if deployed is not None and level.steps is not None and level.steps < deployed:
        made.purifier = shallow(defense.purifier)
        made.purifier.steps = level.steps
    return made


def levels(defense: Any, budget: str = "standard") -> list[Level]:
    """The gradients worth trying, cheapest first. A purifier without steps has one that is exact."""
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
    """Evidence, suspicion and margins of a twin of a defence, differentiable where its level allows."""

    def __init__(self, defense: Any, level: Level, who: str) -> None:
        require_evidence(defense, who)
        self.defense, self.twin = defense, twin(defense, level)

    def evidence(self, images: Tensor) -> Evidence:
        """What detectors and rules look at."""
        seen: Evidence = self.twin.evidence(images)
        return seen

    def before(self, images: Tensor) -> Tensor:
        """Π', the logits before purification, without the cost of purifying."""
        if self.twin.reference == "reconstruction":
            images = self.twin.purifier.reconstructed(images)
        logits: Tensor = self.twin.logits(images)
        return logits

    @property
    def watched(self) -> bool:
        """Whether there is a threshold to stay below."""
        detector = self.twin.detector
        return detector is not None and bool(detector.calibrated)

    def excess(self, evidence: Evidence) -> Tensor:
        """How far the suspicion score lies above its threshold [N], in units of the score; without one, below."""
        detector = self.twin.detector
        if not self.watched:
            return torch.full((len(evidence),), -1.0, device=evidence.images.device)
        score: Tensor = detector.score(evidence)
        above: Tensor = score - detector.thresholds(evidence).to(score)
        return above

    def room(self, evidence: Evidence) -> Tensor:
        """The threshold's size [N], the unit in which an excess is small or large."""
        detector = self.twin.detector
        if not self.watched:
            return torch.ones(len(evidence), device=evidence.images.device)
        limits: Tensor = detector.thresholds(evidence).abs().clamp_min(1e-6).to(evidence.images)
        return limits


def score_matters(defense: Any) -> bool:
    """Whether searches that differ only in what they make of the score can end differently: the rule reads it, or the
    defence is random, so that no two searches are the same."""
    traits = getattr(defense, "traits", None)
    return traits is None or bool(traits.detector or traits.stochastic)


def smoothly_purified(defense: Any) -> Model:
    """f(D(E(x))), or f after a filter's smooth stand-in: what the paper calls white-box, and a source of transfer."""

    def logits(images: Tensor) -> Tensor:
        found: Tensor = defense.logits(defense.purifier.smooth(images))
        return found

    return logits


def require_evidence(model: Any, who: str) -> None:
    """Refuse a model that does not purify and compare."""
    for name in ("evidence", "decide", "purifier", "logits"):
        if not hasattr(model, name):
            raise UsageError(
                f"{who} attacks what purifies and compares, an alu.Defense; {type(model).__name__} has no {name!r}. "
                "Use PGD or AutoAttack, or wrap it: alu.Defense(classifier, purifier, detector)."
            )


def ranked(logits: Tensor, labels: Tensor) -> Tensor:
    """All classes but the label, highest logit first [N, classes - 1]."""
    return logits.scatter(1, labels[:, None], float("-inf")).argsort(1, descending=True)[:, :-1]


def other_class(logits: Tensor, labels: Tensor, rank: int) -> Tensor:
    """The `rank`-th highest class but the label [N]; the last one where there are not so many."""
    others = ranked(logits, labels)
    return others[:, min(rank, others.shape[1] - 1)]


def entry(logits: Tensor, at: Tensor) -> Tensor:
    """The logit of one class per image [N]."""
    return logits.gather(1, at[:, None]).squeeze(1)


def either_branch(view: View, evidence: Evidence, labels: Tensor) -> Tensor:
    """The margin of the branch that the rule would take, per image [N]: m(Δ) where flagged, else m(Π)."""
    after = margin(evidence.post_logits, labels)
    if view.twin.rule != "alu":
        return after
    return torch.where(view.excess(evidence).detach() > 0, margin(evidence.change, labels), after)


GoalMaker = Callable[[Any, Tensor, Tensor], Any]
