"""Of a defence that refuses: how easily it is silenced, the bounds that its search promises, and the plainest rival,
refusal by confidence at equal coverage."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from alu.attacks import GradientAttack
from alu.attacks.adaptive import Denial
from alu.attacks.adaptive.base import DRAWS
from alu.attacks.goals import fooled, refuses_by_search
from alu.defense import Defense
from alu.detectors import Confidence
from alu.errors import AluError
from alu.evaluation.subject import Subject
from alu.evaluation.suite import Evaluation
from alu.purifiers.filters import Identity

SHARES = (0.0, 1 / 8, 1 / 4, 1 / 2)
"""The strengths at which the defence is silenced, as shares of eps: 0, 1, 2 and 4/255 where eps is 8/255."""
RIVAL_ATTACKS = ("fgsm", "pgd-20", "direct", "confident")
"""What refusal by confidence is attacked with."""


def block_curves(evaluation: Evaluation, positions: list[int]) -> dict[str, Any]:
    """What is measured on every image of a block of a refusing defence, besides the attacks."""
    defense = evaluation.subject.defense
    if defense is None or not defense.rule_.rejects or evaluation.suite != "adaptive" or evaluation.only:
        return {}
    images, labels = evaluation.images[positions], evaluation.labels[positions]
    numbers = [int(evaluation.dataset.indices[position]) for position in positions]
    curves: dict[str, Any] = {}
    with suppress(AluError):  # a classifier without a gradient has neither
        curves["denial"] = denial(evaluation, images, labels, numbers)
        if refuses_by_search(defense) and evaluation.threat.norm == "Linf":
            curves["bounds"] = bounds(evaluation, images, labels, numbers)
    return curves


def denial(evaluation: Evaluation, images: Tensor, labels: Tensor, numbers: list[int]) -> list[dict[str, Any]]:
    """Images that are right and answered, and stay so within each radius; who is silenced within a smaller one is not
    attacked again."""
    defense = evaluation.subject.defense
    assert defense is not None
    rows, left = [], torch.arange(len(images), device=images.device)
    for share in SHARES:
        attack = denial_attack(evaluation, share)
        if len(left):
            at, own = images[left], labels[left]
            if share:
                at = attack(defense, at, own, numbers=[numbers[place] for place in left.tolist()])
            left = left[~attack.broken(defense, at, own)]
        rows.append({"eps": attack.eps, "right": len(left), "n": len(images), "attack": "Denial"})
    return rows


def denial_attack(evaluation: Evaluation, share: float) -> Denial:
    """What silences the defence within this share of eps."""
    draws = DRAWS[evaluation.budget] if evaluation.subject.traits.stochastic else None
    common = {**evaluation.common, "eps": share * evaluation.threat.eps}
    return Denial(steps=evaluation.steps, budget=evaluation.budget, draws=draws, **common)


def bounds(evaluation: Evaluation, images: Tensor, labels: Tensor, numbers: list[int]) -> list[dict[str, int]]:
    """For each image whether the bare classifier stays right within the search's radius ("near"), and within
    max(radius, eps - radius) ("far"), under margin PGD from the image and from a random point."""
    classifier, defense = evaluation.subject.logits, evaluation.subject.defense
    assert defense is not None
    radius = float(defense.detector.radius)  # type: ignore[union-attr, arg-type]
    farther = max(radius, evaluation.threat.eps - radius)
    stays: dict[float, Tensor] = {}
    left = ~fooled(classifier, images, labels)
    for size in sorted({radius, farther}):
        attack = bounds_attack(evaluation, size)
        left = left.clone()
        places = left.nonzero().flatten()
        if len(places):
            chosen = [numbers[place] for place in places.tolist()]
            adversarial = attack(classifier, images[places], labels[places], numbers=chosen)
            left[places] = ~fooled(classifier, adversarial, labels[places])
        stays[size] = left
    near, far = stays[radius].tolist(), stays[farther].tolist()
    return [{"image": image, "near": int(near[image]), "far": int(far[image])} for image in range(len(images))]


def bounds_attack(evaluation: Evaluation, size: float) -> GradientAttack:
    """The attack on the bare classifier that shows what the bounds are, within `size`."""
    return GradientAttack(
        loss="margin", keep="best", steps=evaluation.steps, restarts=2, random_start=False, shrink=True,
        **{**evaluation.common, "eps": size},
    )  # fmt: skip


def rival(evaluation: Evaluation) -> Evaluation | None:
    """The same evaluation of refusal by confidence on the same classifier: it refuses as many of the clean images.

    Its threshold comes from the clean images under evaluation, without their labels. None where there is nothing to
    compare: everything is refused, or the defence is this very one.
    """
    defense = evaluation.subject.defense
    if defense is None or not defense.rule_.rejects or evaluation.suite != "adaptive":
        return None
    if type(defense.purifier) is Identity and type(defense.detector) is Confidence:
        return None
    n, refused = len(evaluation.images), int((~defense.decide(evaluation.images).accepted).sum())
    if refused == n:
        return None
    # So that exactly the images above the threshold, which is itself one of their scores, are as many.
    detector = Confidence(false_alarm=(refused + 1) / (n + 1))
    confident = Defense(defense.classifier, detector=detector, rule="abstain").calibrate(evaluation.images)
    subject = Subject(confident, f"{evaluation.subject.name}: refusal by confidence")
    subject.traits = subject.declared
    return replace(evaluation, subject=subject, extra=(), bare=None, only=RIVAL_ATTACKS)
