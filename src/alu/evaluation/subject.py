"""Subject: what is judged, a defence or anyone's model, and everything its answers are compared with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from alu.attacks.copies import RESUBMISSIONS, redrawn
from alu.attacks.goals import answered, logits_of
from alu.decision import Decision
from alu.defense import Defense, batched_logits
from alu.evaluation.result import Judged
from alu.models.cards import bundled_name, weight_hash
from alu.modes import evaluating
from alu.purifiers import Blur
from alu.purifiers.base import Traits


@dataclass
class Cost:
    """Images that went forward and backward through the classifier."""

    forwards: int = 0
    backwards: int = 0


class Subject:
    """A defence, or any model from images to logits, as the evaluator sees it."""

    def __init__(self, model: Any, name: str | None = None) -> None:
        self.model = model
        self.name = name or described(model)
        self.defense: Defense | None = model if isinstance(model, Defense) else None
        self.declared = self.defense.traits if self.defense is not None else Traits()
        self.traits = self.declared
        """What it is judged by: what it declares, joined with what is seen of it."""
        self.control = Blur(sigma=0.5)
        if self.defense is not None and self.defense.detector is not None:
            self.defense.detector.require_calibration()

    @property
    def classifier(self) -> Any:
        """The network that is counted and that oblivious attackers know."""
        return self.defense.classifier if self.defense is not None else self.model

    def logits(self, images: Tensor) -> Tensor:
        """The bare classifier's logits: what an oblivious attacker sees."""
        return self.defense.logits(images) if self.defense is not None else logits_of(self.model, images)

    def as_json(self) -> dict[str, Any]:
        """Plain facts that name it."""
        facts: dict[str, Any] = {
            "name": self.name,
            "traits": asdict(self.traits),
            "classifier": described(self.classifier),
        }
        if isinstance(self.classifier, nn.Module):
            facts["classifier_sha256"] = weight_hash(self.classifier)
        if self.defense is not None:
            detector = self.defense.detector
            facts |= {
                "rule": self.defense.rule,
                "reference": self.defense.reference,
                "purifier": purifier_facts(self.defense),
                "detector": detector.description() if detector is not None else None,
                "parts_sha256": parts_hash(self.defense),
            }
        return facts

    @torch.no_grad()
    def judge(self, images: Tensor, labels: Tensor, positions: Sequence[int]) -> Judged:
        """Fresh, hard answers to these images; a random defence is asked several times and its worst answer counts."""
        if not len(images):
            return Judged()
        made = Judged(images=list(positions))
        with evaluating(self.model, self.classifier):
            if self.defense is None:
                answer = batched_logits(self.model, images).argmax(1)
                made.answer, made.accepted = answer.tolist(), [True] * len(images)
                made.flagged, made.score = [False] * len(images), [None] * len(images)
            else:
                self._decided(self.defense, images, labels, made)
        if self.traits.stochastic:
            self._resubmit(images, labels, made)
        return made

    def _decided(self, defense: Defense, images: Tensor, labels: Tensor, made: Judged) -> None:
        decision: Decision = defense.decide(images)
        made.answer, made.accepted = decision.label.tolist(), decision.accepted.tolist()
        made.flagged = decision.flagged.tolist()
        made.score = [None if score != score else round(score, 6) for score in decision.score.tolist()]  # noqa: PLR0124
        before = decision.pre_logits if defense.reference == "input" else batched_logits(defense.logits, images)
        made.bare, made.purified = before.argmax(1).tolist(), decision.post_logits.argmax(1).tolist()
        made.control = batched_logits(defense.logits, self.control(images)).argmax(1).tolist()
        change = decision.post_logits - decision.pre_logits
        own = change.gather(1, labels[:, None]).squeeze(1)
        other = change.scatter(1, labels[:, None], float("-inf")).amax(1)
        made.rise_true = [round(value, 4) for value in own.tolist()]
        made.rise_other = [round(value, 4) for value in other.tolist()]

    def _resubmit(self, images: Tensor, labels: Tensor, made: Judged) -> None:
        """Of all draws the worst outcome counts: wrong, else rejected, else right."""
        right = torch.zeros(len(images), device=images.device)
        wrong, rejected = torch.zeros_like(right, dtype=torch.bool), torch.zeros_like(right, dtype=torch.bool)
        for draw in range(RESUBMISSIONS):
            # A defence whose draws follow the image answers the same image alike; another seed is a fresh draw.
            asked = redrawn(self.model, draw) if isinstance(self.model, nn.Module) else self.model
            answer, accepted, _ = answered(asked, images)
            right += (accepted & (answer == labels)).float()
            wrong |= accepted & (answer != labels)
            rejected |= ~accepted
        for place, label in enumerate(labels.tolist()):
            if made.accepted[place] and made.answer[place] != label:
                continue
            if bool(wrong[place]):
                # Which wrong class it was matters less than that there was one.
                made.answer[place], made.accepted[place] = -1, True
            elif bool(rejected[place]):
                made.accepted[place] = False
        made.steady = (right / RESUBMISSIONS).tolist()

    @contextmanager
    def counted(self) -> Iterator[Cost]:
        """Count what goes through the classifier inside the block; a plain callable cannot be counted."""
        cost = Cost()
        if not isinstance(self.classifier, nn.Module):
            yield cost
            return

        def backward(gradient: Tensor) -> None:
            cost.backwards += len(gradient)

        def forward(module: nn.Module, inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor):
                cost.forwards += len(output)
                if output.requires_grad:
                    output.register_hook(backward)  # type: ignore[no-untyped-call]

        handle = self.classifier.register_forward_hook(forward)
        try:
            yield cost
        finally:
            handle.remove()


def device_of(model: Any) -> torch.device:
    """Where a model's weights are."""
    parameter = next(iter(model.parameters()), None) if isinstance(model, nn.Module) else None
    return torch.device("cpu") if parameter is None else parameter.device


def described(model: Any) -> str:
    """A short name: a bundled model's own, a defence's parts, or the class."""
    if isinstance(model, Defense):
        parts = [described(model.classifier), type(model.purifier).__name__]
        steps = getattr(model.purifier, "steps", None)
        parts[1] += "" if steps is None else f" N={steps}"
        return f"{parts[0]} + {parts[1]}, rule {model.rule} ({model.reference})"
    name = bundled_name(model) if isinstance(model, nn.Module) else None
    return name or str(getattr(model, "__name__", type(model).__name__))


def purifier_facts(defense: Defense) -> dict[str, Any]:
    """The purifier's settings, without the VAE's inner architecture."""
    try:
        facts = dict(defense.purifier.description())
    except ValueError:
        facts = {"name": type(defense.purifier).__name__}
    return {key: value for key, value in facts.items() if isinstance(value, str | int | float | bool | type(None))}


def parts_hash(defense: Defense) -> str:
    """SHA-256 of everything but the classifier: two defences that are fitted otherwise must not be taken for one."""
    try:
        about: Any = defense.purifier.description()
    except ValueError:
        about = repr(defense.purifier)
    digest = hashlib.sha256(json.dumps([about, defense.grad_mode], sort_keys=True, default=repr).encode())
    digest.update(weight_hash(defense.purifier).encode())
    for name, tensor in sorted(defense.detector.state_dict().items()) if defense.detector is not None else ():
        if tensor.numel():
            digest.update(f"{name} {tensor.tolist()}".encode())
    return digest.hexdigest()


Model = Callable[[Tensor], Any]
