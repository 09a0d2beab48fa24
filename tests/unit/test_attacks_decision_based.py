"""HopSkipJump: approaches the boundary with predicted labels only, and a rejection is no success."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from alu import Defense
from alu.attacks import HopSkipJump, fooled
from alu.attacks.decision_based import Remembered
from alu.decision import Outcome
from alu.detectors import LogitShift
from alu.errors import InputError, MissingExtraError, UsageError
from alu.purifiers import Blur
from tests.contracts.parts import LinearClassifier, images_like
from tests.toys import SHAPE, known_optimum


class Asked:
    """The predicted labels of a linear model and nothing else: no gradient, no logits, no torch."""

    def __init__(self, model: Any) -> None:
        self.model, self.queries = model, 0

    def __call__(self, images: Tensor) -> list[list[float]]:
        self.queries += 1
        labels = self.model(images).argmax(1).tolist()
        return [[float(label == 0), float(label == 1)] for label in labels]


@pytest.mark.parametrize("norm", ["Linf", "L2"])
def test_closes_in_on_the_boundary_of_a_model_without_gradients(norm: str) -> None:
    model, images, labels = known_optimum()
    wide = HopSkipJump(norm=norm, eps=1.0 if norm == "Linf" else 20.0, steps=20, queries=40)
    asked = Asked(model)
    adversarial = wide(asked, images, labels)
    assert (model(adversarial).argmax(1) != labels).all()
    ratio = wide.threat.distance(adversarial, images) / model.margin(images, norm)
    assert (ratio >= 1).all(), "nothing shorter than the optimum can succeed"
    assert float(ratio.median()) <= 2.0, ratio
    few = HopSkipJump(norm=norm, eps=wide.threat.eps, steps=1, queries=5)(asked, images, labels)
    assert float(wide.threat.distance(few, images).median()) > float(wide.threat.distance(adversarial, images).median())
    small = float(model.margin(images, norm).min()) * 0.99
    assert not fooled(model, HopSkipJump(norm=norm, eps=small, steps=3)(asked, images, labels), labels).any()


def test_a_wrong_image_stays_and_seeds_differ() -> None:
    model, images, labels = known_optimum()
    labels = labels.clone()
    labels[3] = 1 - labels[3]
    adversarial = HopSkipJump(eps=0.5, steps=2, queries=5)(model, images, labels)
    assert torch.equal(adversarial[3], images[3])
    asked = Asked(model)
    assert torch.equal(HopSkipJump(eps=0.5)(asked, images, 1 - model(images).argmax(1)), images)
    assert asked.queries <= 50, "no walk is started"
    assert not torch.equal(HopSkipJump(eps=0.5, steps=2, queries=5, seed=1)(model, images, labels), adversarial)


def test_a_rejected_image_is_no_success() -> None:
    classifier = LinearClassifier(SHAPE, 4)
    defense = Defense(classifier, Blur(0.6), LogitShift(0.1), rule="abstain").calibrate(images_like(60, SHAPE, seed=2))
    images = images_like(8, SHAPE, seed=5)
    labels = defense.decide(images).label
    right = defense.decide(images).outcome(labels) == Outcome.CORRECT
    images, labels = images[right], labels[right]
    attack = HopSkipJump(norm="L2", eps=30.0, steps=3, queries=20, starts=images_like(40, SHAPE, seed=6))
    outcome = defense.decide(attack(defense, images, labels)).outcome(labels)
    assert len(outcome) >= 4
    assert (outcome == Outcome.WRONG).all(), "the walk ends where the answer is accepted and wrong"


def test_no_start_no_change() -> None:
    def always(images: Tensor) -> Tensor:
        return torch.tensor([[0.0, 1.0]]).repeat(len(images), 1)

    images = images_like(3, SHAPE)
    assert torch.equal(HopSkipJump(eps=0.5)(always, images, torch.ones(3, dtype=torch.long)), images)


def test_a_random_model_cannot_stop_the_walk() -> None:
    model, images, labels = known_optimum()
    state = {"calls": 0}

    def random(at: Tensor) -> Tensor:
        state["calls"] += 1
        stream = torch.Generator().manual_seed(state["calls"])
        logits: Tensor = model(at).detach()
        return logits + 0.01 * torch.randn(logits.shape, generator=stream)

    adversarial = HopSkipJump(eps=0.5, steps=4, queries=10)(random, images, labels)
    moved = (adversarial != images).flatten(1).any(1)
    assert int(moved.sum()) >= 8
    assert (model(adversarial)[moved].abs() < 0.05).all(), "at the boundary, as far as it can be known"


def test_each_image_is_asked_once() -> None:
    asked: list[int] = []

    def ask(images: Tensor) -> Tensor:
        asked.append(len(images))
        return torch.rand(len(images)) > 0.5

    images = images_like(9, SHAPE)
    remembered = Remembered(ask, known=images)
    assert remembered(images).all()
    first = remembered(images / 2)
    assert torch.equal(remembered(images / 2), first)
    remembered(images / 3)
    assert asked == [9, 9]


def test_wrong_settings_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="at least 1 step and 1 query"):
        HopSkipJump(steps=0)
    with pytest.raises(InputError, match="Divide by 255"):
        HopSkipJump(starts=255 * images_like(2, SHAPE))
    model, images, labels = known_optimum()
    monkeypatch.setitem(__import__("sys").modules, "foolbox", None)
    with pytest.raises(MissingExtraError, match=r"HopSkipJump needs the package foolbox.*'\.\[attacks\]"):
        HopSkipJump(eps=0.5)(model, images, labels)
