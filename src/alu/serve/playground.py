"""The playground: attack one picture while somebody watches, then ask everyone who could answer it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from alu.attacks import watched
from alu.attacks.catalog import make_attack
from alu.attacks.lattice import to_lattice
from alu.defense import Defense
from alu.detectors import Neighbourhood
from alu.errors import AluError, UsageError, check_choice
from alu.threat import ThreatModel

OBLIVIOUS = ("pgd", "fgsm", "mim")
"""Attacks on the classifier alone, by someone who does not know the defence."""
ADAPTIVE = ("decoy", "stealth", "boost")
"""Attacks by someone who knows a defence that purifies and compares."""
ON_CHECKS = ("min-max", "confident", "stall")
"""Attacks by someone who knows a defence that refuses by a search."""
MOST_STEPS = 100
MOST_FRAMES = 24
"""Pictures that are sent of a search; a longer one is shown in strides."""
RADIUS = 2 / 255
"""How far the check that stands beside the defence looks around a picture."""


class OutOfTimeError(Exception):
    """The time for an attack is up."""


@dataclass(frozen=True)
class Frame:
    """One step of the search: its number, the picture [C, H, W], and the classifier's logits for it."""

    step: int
    picture: Tensor
    logits: list[float]


@dataclass(frozen=True)
class Answer:
    """What one way of answering says: a class (-1 where it refuses), whether it flags the picture, and why."""

    label: int
    flagged: bool = False
    state: str = ""
    score: float | None = None
    p_value: float | None = None


@dataclass(frozen=True)
class Shown:
    """An attack as it can be watched: its frames, its result, and what everyone answers to that."""

    frames: list[Frame]
    picture: Tensor
    """The adversarial picture [C, H, W], on 8 bits, as anyone could send it."""
    searches: int
    """How many searches the attack made; the frames are those of the last."""
    finished: bool
    """False where the time was up before the attack was done."""
    seconds: float
    logits: list[float]
    """The classifier's logits for the adversarial picture."""
    purified: Tensor
    """What the purifier makes of it [C, H, W]."""
    answers: dict[str, Answer] = field(default_factory=dict)
    """Of the bare classifier ("bare"), the deployed defence ("defense") and, where the classifier has a gradient, of a
    neighbourhood check around it ("check")."""


def attacks_on(defense: Defense) -> tuple[str, ...]:
    """The attacks that can be shown on this defence."""
    if defense.traits.search:
        return (*OBLIVIOUS, *ON_CHECKS)
    return (*OBLIVIOUS, *ADAPTIVE) if defense.rule_.uses_flags or defense.rule_.rejects else OBLIVIOUS


def show(
    defense: Defense, picture: Tensor, label: int, *, attack: str = "pgd", eps: float = 8 / 255, steps: int = 20,
    seed: int = 0, seconds: float = 20.0,
) -> Shown:  # fmt: skip
    """Attack a picture [C, H, W] of class `label`, for `seconds` at most, and keep what can be watched."""
    check_choice("attack", attack, attacks_on(defense))
    classes = len(_logits(defense, picture[None])[0])
    if not 0 <= label < classes:
        raise UsageError(f"The label is a class from 0 to {classes - 1}; it was given {label}.")
    if not 1 / 255 <= eps <= 1:
        raise UsageError(f"eps is the largest change of a pixel, from 1/255 to 1; it was given {eps:g}.")
    if not 1 <= steps <= MOST_STEPS:
        raise UsageError(f"An attack takes 1 to {MOST_STEPS} steps here; it was given {steps}.")
    settings: dict[str, Any] = {"eps": eps, "seed": seed, "lattice": True}
    if attack != "fgsm":
        settings["steps"] = steps
    if attack not in OBLIVIOUS:
        settings["budget"] = "quick"
    target = defense.classifier if attack in OBLIVIOUS else defense
    search = make_attack(attack, **settings)
    images, labels = picture[None], torch.tensor([label])
    started, recorder = time.monotonic(), _Recorder(time.monotonic() + seconds)
    finished = True
    with watched(recorder.see):
        try:
            adversarial = search(target, images, labels)
        except OutOfTimeError:
            threat, finished = ThreatModel("Linf", eps), False
            adversarial = to_lattice(threat.project(recorder.steps[-1][1], images), images, threat)
    adversarial = adversarial.detach()
    with torch.no_grad():
        purified = defense.evidence(adversarial).purified[0]
    return Shown(
        _frames(defense, recorder.steps), adversarial[0], max(1, recorder.searches), finished,
        time.monotonic() - started, _logits(defense, adversarial)[0].tolist(), purified,
        answers_to(defense, adversarial),
    )  # fmt: skip


def answers_to(defense: Defense, images: Tensor) -> dict[str, Answer]:
    """What the classifier, the deployed defence and a check say of one picture [1, C, H, W]."""
    found = {"bare": Answer(int(_logits(defense, images).argmax())), "defense": _answer(defense, images)}
    if not defense.traits.search:
        check = Defense(defense.classifier, detector=Neighbourhood(radius=RADIUS), rule="abstain")
        try:
            found["check"] = _answer(check, images)
        except AluError:  # a classifier without a gradient
            return found
    return found


def _answer(defense: Defense, images: Tensor) -> Answer:
    told = defense.decide(images).to_dict()
    label = told["label"][0] if told["accepted"][0] else -1
    return Answer(label, told["flagged"][0], told["state"][0], told["score"][0], told["p_value"][0])


@torch.no_grad()
def _logits(defense: Defense, images: Tensor) -> Tensor:
    return defense.logits(images).detach()


def _frames(defense: Defense, steps: Sequence[tuple[int, Tensor]]) -> list[Frame]:
    """At most MOST_FRAMES of the steps, the first and the last among them, with the classifier's logits."""
    if not steps:
        return []
    count = min(len(steps), MOST_FRAMES)
    chosen = [steps[round(place * (len(steps) - 1) / max(1, count - 1))] for place in range(count)]
    logits = _logits(defense, torch.cat([at for _, at in chosen])).tolist()
    return [Frame(step, at[0], row) for (step, at), row in zip(chosen, logits, strict=True)]


class _Recorder:
    """Keeps the steps of the latest search, and ends the attack when the time is up."""

    def __init__(self, until: float) -> None:
        self.until, self.steps, self.searches = until, list[tuple[int, Tensor]](), 0

    def see(self, _: str, step: int, images: Tensor) -> None:
        """Remember this step; a search begins at step 0."""
        if step == 0:
            self.steps, self.searches = [], self.searches + 1
        self.steps.append((step, images.cpu().clone()))
        if time.monotonic() > self.until:
            raise OutOfTimeError
