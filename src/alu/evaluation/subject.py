"""Subject: what is evaluated, a defence or any model, and everything its answers are compared with."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from alu.attacks.copies import RESUBMISSIONS, redrawn
from alu.attacks.goals import answered, logits_of
from alu.check import check_classifier, evaluating, logits_in
from alu.defense import Defense, batched_logits
from alu.errors import InputError
from alu.evaluation.result import Answers, AttackRecord
from alu.models.adapters import Adapter
from alu.models.cards import Card, bundled_name, weight_hash
from alu.parts import PLAIN
from alu.purifiers import Blur
from alu.purifiers.base import Traits

TRIED = 16
"""How many images are tried before anything is measured."""
CONTROL = Blur(sigma=0.5)
"""The simplest purifier, for comparison."""


class Subject:
    """A defence, or any model from images to logits, as the evaluator sees it."""

    def __init__(self, model: Any, name: str | None = None) -> None:
        self.model = model
        self.name = name or described(model)
        self.defense: Defense | None = model if isinstance(model, Defense) else None
        own: dict[str, Any] = {name: bool(getattr(model, name, False)) for name in ("stochastic", "mixture")}
        self.declared = self.defense.traits if self.defense is not None else Traits(**own)
        self.traits = self.declared
        """The traits that decide which attacks are required: the declared ones, joined with those that are observed."""
        if self.defense is not None and self.defense.detector is not None:
            self.defense.detector.require_calibration()

    @property
    def classifier(self) -> Any:
        """The network whose passes are counted and that oblivious attackers know."""
        return self.defense.classifier if self.defense is not None else self.model

    @property
    def device(self) -> torch.device:
        """Where the model's weights are."""
        parameter = next(iter(self.model.parameters()), None) if isinstance(self.model, nn.Module) else None
        return torch.device("cpu") if parameter is None else parameter.device

    @property
    def steady(self) -> bool:
        """Whether it answers the same picture alike each time and in any batch, so that answers may be kept."""
        return not (self.traits.stochastic or self.traits.batch_dependent)

    def logits(self, images: Tensor) -> Tensor:
        """The bare classifier's logits: what an oblivious attacker uses."""
        return self.defense.logits(images) if self.defense is not None else logits_of(self.model, images)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of its classes, where they are known."""
        known = self.defense.classes if self.defense is not None else ()
        card = getattr(self.classifier, "card", None)
        own = self.classifier.classes if isinstance(self.classifier, Adapter) else ()
        return tuple(known) or (card.classes if isinstance(card, Card) else own)

    def check(self, images: Tensor, name: str, classes: Sequence[str] | None) -> int:
        """The number of classes it answers with; images that it does not read, or of other classes, are refused.

        `name` is that of the data set, and `classes` are its class names, or None if they are not known.
        """
        expected, given = self._image_shape(), tuple(images.shape[1:])
        if expected and expected != given:
            wanted, came = (" x ".join(map(str, shape)) for shape in (expected, given))
            raise InputError(
                f"{self.name} reads images of {wanted} (channels, height, width); those in {name} are {came}. "
                "Scale them to that size, or choose other images."
            )
        few = images[:TRIED].to(self.device)
        classifier = self.model if self.defense is None else self.defense.logits
        with evaluating(self.model):
            return check_classifier(classifier, few, name, classes, self.name).shape[1]

    def _image_shape(self) -> tuple[int, ...]:
        """The shape of the images it reads, where that is known: a defence was calibrated on it, a card says it."""
        card = getattr(self.model, "card", None)
        if self.defense is not None:
            return tuple(self.defense.shape)
        if isinstance(card, Card):
            side = card.architecture.get("size", 32)
            return card.architecture.get("channels", 3), side, side
        return ()

    def as_json(self) -> dict[str, Any]:
        """Plain facts that identify it."""
        return {"name": self.name, "traits": asdict(self.traits), **self._parts}

    @cached_property
    def _parts(self) -> dict[str, Any]:
        """The settings and hashes of what it is made of."""
        facts: dict[str, Any] = {"classifier": described(self.classifier)}
        if isinstance(self.classifier, nn.Module):
            facts["classifier_sha256"] = weight_hash(self.classifier)
        if self.defense is None:
            return facts
        purifier, detector = self.defense.purifier, self.defense.detector
        hashed: Any
        try:
            settings = hashed = purifier.description()
        except ValueError:
            settings, hashed = {"name": type(purifier).__name__}, repr(purifier)
        digest = hashlib.sha256(json.dumps([hashed, self.defense.grad_mode], sort_keys=True, default=repr).encode())
        digest.update(weight_hash(purifier).encode())
        for name, tensor in sorted(detector.state_dict().items()) if detector is not None else ():
            if tensor.numel():
                digest.update(f"{name} {tensor.tolist()}".encode())
        return facts | {
            "rule": self.defense.rule,
            "reference": self.defense.reference,
            # Under other rules no answer depends on it.
            **({"suspicious": self.defense.suspicious} if self.defense.rule_.uses_state else {}),
            # Without the VAE's inner architecture.
            "purifier": {name: value for name, value in settings.items() if isinstance(value, PLAIN)},
            "detector": detector.description() if detector is not None else None,
            # Two defences that are fitted differently must not be confused.
            "parts_sha256": digest.hexdigest(),
        }

    def detector_facts(self) -> dict[str, Any]:
        """Name, threshold, false-alarm rate and number of calibration images; empty without a detector."""
        detector = self.defense.detector if self.defense is not None else None
        if detector is None or not detector.calibrated:
            return {}
        facts: dict[str, Any] = {"name": type(detector).__name__, "false_alarm": detector.false_alarm}
        facts["calibration_images"] = len(detector.scores_)
        facts["threshold"] = round(float(detector.threshold_), 6)
        return {"detector": facts}

    @torch.no_grad()
    def answers(self, images: Tensor, labels: Tensor, positions: Sequence[int]) -> Answers:
        """Fresh, hard answers to these images; a random subject is asked several times and its worst answer counts."""
        n = len(images)
        if not n:
            return Answers()
        with evaluating(self.model):
            if self.defense is None:
                answer = batched_logits(self.model, images).argmax(1).tolist()
                answers = Answers(list(positions), answer, [True] * n, [False] * n, [None] * n)
            else:
                answers = _decided(self.defense, images, labels, positions)
            if self.traits.stochastic:
                self._resubmit(images, labels, answers)
        return answers

    def _resubmit(self, images: Tensor, labels: Tensor, answers: Answers) -> None:
        """Of all draws the worst outcome counts: wrong, else rejected, else correct."""
        correct = torch.zeros(len(images), device=images.device)
        wrong, rejected = torch.zeros_like(correct, dtype=torch.bool), torch.zeros_like(correct, dtype=torch.bool)
        for draw in range(RESUBMISSIONS):
            # A defence whose draws follow the image answers the same image alike; another seed is a fresh draw.
            model = redrawn(self.model, draw) if isinstance(self.model, nn.Module) else self.model
            answer, accepted, _ = answered(model, images)
            correct += (accepted & (answer == labels)).float()
            wrong |= accepted & (answer != labels)
            rejected |= ~accepted
        for place, label in enumerate(labels.tolist()):
            if answers.accepted[place] and answers.answer[place] != label:
                continue
            if bool(wrong[place]):
                # Which wrong class it was matters less than that there was one.
                answers.answer[place], answers.accepted[place] = -1, True
            elif bool(rejected[place]):
                answers.accepted[place] = False
        answers.steady = (correct / RESUBMISSIONS).tolist()

    @contextmanager
    def counted(self, record: AttackRecord) -> Iterator[None]:
        """Count the images that go through the classifier inside the block; a plain callable cannot be counted."""
        if not isinstance(self.classifier, nn.Module):
            yield
            return

        def backward(gradient: Tensor) -> None:
            record.backwards += len(gradient)

        def forward(module: nn.Module, inputs: Any, output: Any) -> None:
            logits = logits_in(output)
            if isinstance(logits, Tensor):
                record.forwards += len(logits)
                if logits.requires_grad:
                    logits.register_hook(backward)  # type: ignore[no-untyped-call]

        handle = self.classifier.register_forward_hook(forward)
        try:
            yield
        finally:
            handle.remove()


def _decided(defense: Defense, images: Tensor, labels: Tensor, positions: Sequence[int]) -> Answers:
    """The defence's decisions, and what the bare classifier, the purifier alone and a blur answer."""
    decision = defense.decide(images)
    before = decision.pre_logits if defense.reference == "input" else batched_logits(defense.logits, images)
    change = decision.post_logits - decision.pre_logits
    own = change.gather(1, labels[:, None]).squeeze(1)
    other = change.scatter(1, labels[:, None], float("-inf")).amax(1)
    return Answers(
        images=list(positions),
        answer=decision.label.tolist(),
        accepted=decision.accepted.tolist(),
        flagged=decision.flagged.tolist(),
        score=[None if math.isnan(score) else round(score, 6) for score in decision.score.tolist()],
        bare=before.argmax(1).tolist(),
        purified=decision.post_logits.argmax(1).tolist(),
        control=batched_logits(defense.logits, CONTROL(images)).argmax(1).tolist(),
        rise_true=[round(value, 4) for value in own.tolist()],
        rise_other=[round(value, 4) for value in other.tolist()],
    )


def described(model: Any) -> str:
    """A short name: a bundled model's own, a defence's parts, or the class."""
    if isinstance(model, Defense):
        steps = getattr(model.purifier, "steps", None)
        purifier = type(model.purifier).__name__ + ("" if steps is None else f" N={steps}")
        width = f", suspicious up to {100 * model.suspicious:g} %" if model.rule_.uses_state else ""
        return f"{described(model.classifier)} + {purifier}, rule {model.rule}{width} ({model.reference})"
    name = bundled_name(model) if isinstance(model, nn.Module) else None
    return name or str(getattr(model, "__name__", type(model).__name__))
