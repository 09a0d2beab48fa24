"""DefendedEngine: a `Defense` as an engine. The only file of the service that imports torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from alu.check import find_device
from alu.data import as_images
from alu.decoding import Pixels
from alu.defense import Defense
from alu.errors import UsageError
from alu.loading import load
from alu.models import weight_hash
from alu.parts import call_factory
from alu.progress import Watch, silent
from alu.serve.engine import Answers, Engine
from alu.state import State
from alu.storage import checksum


class DefendedEngine(Engine):
    """Answers with `Defense.decide`.

    Parameters
    ----------
    defense
        A calibrated defence.
    name
        What to call it.
    """

    def __init__(self, defense: Defense, name: str) -> None:
        if not defense.shape:
            raise UsageError(
                f"{name} has not been calibrated, so it does not know the size of its pictures. Run alu fit, or call "
                "defense.calibrate(images) with clean images."
            )
        self.defense = defense.eval()
        self.name, self.classes = name, defense.classes
        channels, height, width = defense.shape
        self.shape = (channels, height, width)
        self.facts = _facts(defense)
        self.model, self.calibration = _model_hash(defense, self.facts), _calibration_hash(defense)
        scores = defense.detector.scores_ if defense.detector is not None else torch.empty(0)
        self.clean_scores = scores.numpy().astype(np.float64) if scores.numel() else None
        self.without_scores = "" if self.clean_scores is not None else _why_no_scores(defense)
        self.can_purify = True
        self.can_purify = self.decide(np.zeros((1, *self.shape), np.uint8), True).purified is not None

    def decide(self, pixels: Pixels, purified: bool = False) -> Answers:
        """`Defense.decide`, on one batch."""
        images = as_images(torch.from_numpy(pixels)).to(next(self.defense.parameters()).device)
        decision = self.defense.decide(images, len(images))
        shown = decision.purified if purified and decision.purified.shape == images.shape else None
        return Answers(
            decision.label.cpu().numpy(), decision.accepted.cpu().numpy(), decision.flagged.cpu().numpy(),
            [State(state).word for state in decision.state.tolist()], _double(decision.score),
            _double(decision.p_value), _single(decision.pre_logits), _single(decision.post_logits),
            None if shown is None else _single(shown),
        )  # fmt: skip


def load_engine(
    name: str, classifier: str | None = None, trust: bool = False, device: str = "cpu", watch: Watch = silent
) -> DefendedEngine:
    """The defence that a name, a folder or module:function stands for, as in `alu.load`, ready to answer."""
    where = find_device(device)
    given = call_factory(classifier) if classifier else None
    subject = load(Path(name) if Path(name).is_dir() else name, classifier=given, trust=trust, watch=watch)
    if not isinstance(subject, Defense):
        raise UsageError(
            f"{name} is a classifier without a defence: it has no calibration, so neither flags nor the size of its "
            "pictures are known. Build a defence around it with alu fit, and serve that."
        )
    return DefendedEngine(subject.to(where), name)


def _double(tensor: Tensor) -> Any:
    return tensor.detach().to("cpu", torch.float64).numpy()


def _single(tensor: Tensor) -> Any:
    return tensor.detach().to("cpu", torch.float32).numpy()


def _facts(defense: Defense) -> dict[str, Any]:
    """Settings, as plain values; a part that cannot be described is named."""
    detector = defense.detector
    return {
        "classifier": type(defense.classifier).__name__,
        "purifier": _described(defense.purifier),
        "detector": None if detector is None else _described(detector),
        "rule": defense.rule,
        "reference": defense.reference,
        "eps": defense.residual.eps,
        "suspicious": defense.suspicious,
        "false_alarm": None if detector is None else detector.false_alarm,
        "threshold": None if detector is None or not detector.calibrated else float(detector.threshold_),
    }


def _described(part: Any) -> dict[str, Any]:
    try:
        found: dict[str, Any] = part.description()
        return found
    except UsageError:  # around a network that cannot be rebuilt; it can be served all the same
        return {"name": type(part).__name__}


def _model_hash(defense: Defense, facts: dict[str, Any]) -> str:
    weights = [
        weight_hash(part) if isinstance(part, nn.Module) else type(part).__name__
        for part in (defense.classifier, defense.purifier)
    ]
    settings = {name: value for name, value in facts.items() if name != "threshold"}
    return checksum({"weights": weights, "settings": settings, "classes": list(defense.classes)})


def _calibration_hash(defense: Defense) -> str:
    detector = None if defense.detector is None else weight_hash(defense.detector)
    return checksum({"detector": detector, "residual": weight_hash(defense.residual), "shape": list(defense.shape)})


def _why_no_scores(defense: Defense) -> str:
    if defense.detector is None:
        return f"Rule {defense.rule!r} without a detector has no score, so there is nothing to monitor."
    return (
        f"{type(defense.detector).__name__} has no scores of clean pictures. Call defense.calibrate(images) with some, "
        "and save the defence again."
    )
