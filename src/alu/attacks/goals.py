"""Goals: what an attacker wants. A search works for any goal, so each search is written once."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from alu.attacks.copies import RESUBMISSIONS, draws_of
from alu.attacks.memory import memory_of
from alu.check import answers, check_labels, check_logits
from alu.errors import NoGradientError, UsageError, check_choice

Model = Callable[[Tensor], Any]
SEARCHED = 100
"""How many images a defence that searches is asked about at once."""


class Goal(ABC):
    """A differentiable loss to raise and an exact test of success, both image by image. A subclass writes `loss`.

    Parameters
    ----------
    model, labels
        The attacked model, and the true classes of its images.

    Examples
    --------
    >>> alu.attacks.Misclassify(classifier, labels).reached(images).shape
    torch.Size([4])
    """

    rows: ClassVar[tuple[str, ...]] = ()
    """The attributes that have a row for each image, such as the labels; a search leaves images that it is done with
    behind where this names every tensor of the goal."""

    def __init__(self, model: Model, labels: Tensor) -> None:
        self.model, self.labels = model, labels

    def only(self, chosen: Tensor) -> Goal | None:
        """The same goal for the images that are chosen (bool [N]); None where it does not know its rows."""
        tensors = [name for name, value in vars(self).items() if isinstance(value, Tensor)]
        if not set(tensors) <= set(self.rows):
            return None
        fewer = copy.copy(self)
        for name in tensors:
            setattr(fewer, name, getattr(self, name)[chosen])
        return fewer

    @abstractmethod
    def loss(self, images: Tensor) -> Tensor:
        """The value to raise for each image [N]."""

    def follow(self, first: Any) -> None:  # noqa: B027 - most goals have no target
        """Take over the target of `first`, the same goal on another draw of the model; most goals have none."""

    def ascent(self, images: Tensor, who: str) -> tuple[Tensor, Tensor]:
        """The direction that raises the loss, and the loss [N]; a goal with two terms may combine their gradients."""
        loss = self.loss(images)
        return gradient_of(loss.sum(), images, who), loss.detach()

    def reached(self, images: Tensor) -> Tensor:
        """Whether the deployed answer is wrong [N]; a rejected image is not wrong."""
        return fooled(self.model, images, self.labels)


@torch.no_grad()
def fooled(model: Model, images: Tensor, labels: Tensor) -> Tensor:
    """Whether a new answer is accepted and wrong, for each image [N].

    Parameters
    ----------
    model
        A defence, or any callable from images to logits.
    images, labels
        The images, and their true classes.

    Examples
    --------
    >>> broken = alu.attacks.fooled(defense, images, labels)
    """
    memory = memory_of(model)
    if memory is not None:
        return memory.fooled(lambda at, own: _fooled(model, at, own), images, labels)
    return _fooled(model, images, labels)


def _fooled(model: Model, images: Tensor, labels: Tensor) -> Tensor:
    """The same, asked now."""
    if refuses_by_search(model):
        return _fooled_search(model, images, labels)
    answer, accepted, classes = answered(model, images)
    if classes is not None:
        check_labels(labels, len(images), classes, "The attack")
    return accepted & (answer != labels)


def refuses_by_search(model: Any) -> bool:
    """Whether a model is a defence that refuses what a search around the image finds another answer for."""
    traits, rule = getattr(model, "traits", None), getattr(model, "rule_", None)
    return bool(getattr(traits, "search", False) and getattr(rule, "rejects", False))


def _fooled_search(defense: Any, images: Tensor, labels: Tensor) -> Tensor:
    """The same for a defence that searches around each image: only wrong answers are worth a search."""
    if defense.shape and defense.shape != tuple(images.shape[1:]):
        defense.decide(images)  # which refuses them
    wrong = []
    for part, own in zip(torch.split(images, SEARCHED), torch.split(labels, SEARCHED), strict=True):
        evidence = defense.evidence(part)
        check_labels(own, len(part), evidence.post_logits.shape[1], "The attack")
        hit = evidence.post_logits.argmax(1) != own
        if bool(hit.any()):
            hit[hit.clone()] = defense.judge(evidence.take(hit.nonzero().flatten())).accepted
        wrong.append(hit)
    return torch.cat(wrong) if wrong else torch.zeros(0, dtype=torch.bool, device=images.device)


@torch.no_grad()
def ever_fooled(model: Model, images: Tensor, labels: Tensor) -> Tensor:
    """Whether one of several draws of a random model is accepted and wrong [N]: who is refused may ask again."""
    return torch.stack([fooled(drawn, images, labels) for drawn in draws_of(model, RESUBMISSIONS)]).any(0)


@torch.no_grad()
def answered(model: Model, images: Tensor) -> tuple[Tensor, Tensor, int | None]:
    """The predicted class of each image [N], whether it is accepted [N], and a defence's number of classes."""
    decide = getattr(model, "decide", None)
    if decide is None:
        answer = logits_of(model, images).argmax(1)
        return answer, torch.ones_like(answer, dtype=torch.bool), None
    decision = decide(images)
    known = getattr(decision, "post_logits", None)
    return decision.label, decision.accepted, None if known is None else known.shape[1]


def logits_of(model: Model, images: Tensor) -> Tensor:
    """A model's logits [N, classes], checked."""
    return check_logits(answers(model, images), len(images), "The attacked model")


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of each image [N]."""
    return F.cross_entropy(logits, labels, reduction="none")


def margin(logits: Tensor, labels: Tensor) -> Tensor:
    """Highest other logit minus the label's, for each image [N]; positive where the answer is another class."""
    own = logits.gather(1, labels[:, None]).squeeze(1)
    others = logits.scatter(1, labels[:, None], float("-inf"))
    return others.amax(1) - own


Loss = Literal["ce", "margin"]
LOSSES: dict[Loss, Callable[[Tensor, Tensor], Tensor]] = {"ce": cross_entropy, "margin": margin}


class Misclassify(Goal):
    """Any answer but the label or, if targeted, exactly that answer.

    Parameters
    ----------
    loss
        "ce" (cross-entropy) or "margin" (highest other logit minus the label's).
    targeted
        Whether the labels are the classes to reach; plus those of `Goal`.

    Examples
    --------
    >>> loss = alu.attacks.Misclassify(classifier, labels, loss="margin").loss(images)
    """

    rows = ("labels",)

    def __init__(self, model: Model, labels: Tensor, loss: Loss = "ce", targeted: bool = False) -> None:
        super().__init__(model, labels)
        check_choice("loss", loss, LOSSES)
        self.name, self.targeted = loss, targeted

    def loss(self, images: Tensor) -> Tensor:
        """The loss away from the label, or towards the target."""
        logits = logits_of(self.model, images)
        check_labels(self.labels, len(images), logits.shape[1], "The attack")
        value = LOSSES[self.name](logits, self.labels)
        return -value if self.targeted else value

    def reached(self, images: Tensor) -> Tensor:
        """Whether the answer is wrong, or is the target."""
        if not self.targeted:
            return super().reached(images)
        answer, accepted, _ = answered(self.model, images)
        return accepted & (answer == self.labels)


class Averaged(Goal):
    """The mean loss and direction of the same goal on several draws of a random model (EOT).

    Success is one new answer of the first draw. The draws are differentiated one after another, so that memory does not
    grow with their number.

    Parameters
    ----------
    goals
        The goal on each draw.

    Examples
    --------
    >>> goal = alu.attacks.Averaged([alu.attacks.Misclassify(classifier, labels)] * 2)
    """

    def __init__(self, goals: Sequence[Goal]) -> None:
        if not goals:
            raise UsageError("Averaged needs the goal on at least 1 draw; it was given none.")
        super().__init__(goals[0].model, goals[0].labels)
        self.goals = tuple(goals)

    def only(self, chosen: Tensor) -> Goal | None:
        """The same of the goal on each draw, if all of them know their rows."""
        fewer = [known for goal in self.goals if (known := goal.only(chosen)) is not None]
        return Averaged(fewer) if len(fewer) == len(self.goals) else None

    def loss(self, images: Tensor) -> Tensor:
        """The mean loss [N]."""
        return torch.stack([goal.loss(images) for goal in self.goals]).mean(0)

    def ascent(self, images: Tensor, who: str) -> tuple[Tensor, Tensor]:
        """The mean direction and the mean loss [N]."""
        direction, loss = self.goals[0].ascent(images, who)
        for goal in self.goals[1:]:
            more = goal.ascent(images, who)
            direction, loss = direction + more[0], loss + more[1]
        return direction / len(self.goals), loss / len(self.goals)

    def reached(self, images: Tensor) -> Tensor:
        """Whether a new answer of the first draw reaches the goal [N]."""
        return self.goals[0].reached(images)


def gradient_of(loss: Tensor, images: Tensor, who: str, *, keep_graph: bool = False) -> Tensor:
    """d loss / d images; a model without a gradient is an error. `keep_graph` allows another call."""
    if not loss.requires_grad:
        raise NoGradientError(
            f"{who} needs gradients, but the model gives none for its images. Use a query attack such as Square, or a "
            "differentiable model."
        )
    (gradient,) = torch.autograd.grad(loss, images, retain_graph=keep_graph, allow_unused=True)
    if gradient is None:
        raise NoGradientError(f"{who} needs gradients, but the model's logits do not depend on its images.")
    return gradient
