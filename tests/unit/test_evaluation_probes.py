"""Probes: traits and faults that a few answers show."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from alu import Defense
from alu.decision import Evidence
from alu.detectors import LogitShift
from alu.evaluation import probes
from alu.evaluation.evaluate import evaluate
from alu.evaluation.subject import Subject
from alu.purifiers import Blur
from alu.threat import ThreatModel
from tests.toys import Shaky, Toy, random_defense, toy_data, toy_images
from tests.unit import results

THREAT = ThreatModel("Linf", 0.1)


def test_noise_that_does_as_well_as_the_attack() -> None:
    model, data = Toy(), toy_data(24)
    strong = ThreatModel("Linf", 0.5)
    by_noise = probes.noise(Subject(model), data.images, data.labels, strong, torch.zeros(24, dtype=torch.bool))
    assert by_noise.status == "failed"
    sound = probes.noise(Subject(model), data.images, data.labels, strong, torch.ones(24, dtype=torch.bool))
    assert sound.status == "passed"


class Ordered(Toy):
    """The first image of a batch is treated otherwise."""

    def forward(self, images: Tensor) -> Tensor:
        place = torch.arange(len(images))[:, None] / len(images)
        return super().forward(images) + 3 * place * torch.arange(5)


class QuietWhenWatched(Toy):
    """Random, and says so to nobody who takes a gradient."""

    def forward(self, images: Tensor) -> Tensor:
        logits = super().forward(images)
        return logits if images.requires_grad else logits + torch.randn(len(images), 5)


def test_steadiness() -> None:
    images = toy_images(24)

    def failed(model: nn.Module) -> list[str]:
        return [item.id for item in probes.steadiness(Subject(model), images) if item.status == "failed"]

    assert failed(Toy()) == []
    assert failed(Ordered()) == ["batch-size", "batch-order"]
    # Who is random is not also accused of looking at the batch, but must say so, and be so when a gradient is taken.
    assert failed(Shaky()) == ["second-call"]
    assert failed(QuietWhenWatched()) == ["second-call", "gradients-on"]
    declared = Subject(Shaky())
    declared.declared = random_defense("purified").traits
    found = probes.steadiness(declared, images)
    assert [item.id for item in found if item.status == "failed"] == []
    (says,) = (item.says for item in found if item.id == "second-call")
    assert "fresh draws are evaluated" in says


class PeekingDetector(LogitShift):
    def score(self, evidence: Evidence) -> Tensor:
        value = super().score(evidence)
        return value - 0.5 * value.mean()


class RandomDetector(LogitShift):
    def score(self, evidence: Evidence) -> Tensor:
        value = super().score(evidence)
        return value * (1 + 0.9 * torch.randn_like(value))


class CountingDetector(LogitShift):
    """Whole numbers have no slope."""

    def score(self, evidence: Evidence) -> Tensor:
        return super().score(evidence).floor()


@pytest.mark.parametrize(
    ("detector", "trait", "id"),
    [
        (PeekingDetector(0.2), "batch_dependent", "batch-size"),
        (RandomDetector(0.2), "stochastic", "second-call"),
        (CountingDetector(0.2), "gradient", "gradients-usable"),
    ],
)
def test_a_detector_is_looked_at_too(detector: LogitShift, trait: str, id: str) -> None:
    defense = Defense(Toy(), Blur(0.5), detector, "abstain", "input").calibrate(toy_images(60, seed=9))
    result = evaluate(defense, toy_data(24), THREAT, "paper", "quick")
    traits, sound = result.subject["traits"], {"batch_dependent": False, "stochastic": False, "gradient": "exact"}
    assert {name for name, usual in sound.items() if traits[name] != usual} == {trait}
    assert results.status(result, id)[0] == "failed"
