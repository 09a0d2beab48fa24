"""Soft: attacks on a smooth version of the decision."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from alu import Defense
from alu.attacks import AutoAttack, CWLinf, adaptive
from alu.attacks.adaptive import Soft
from alu.attacks.adaptive.soft import OnSoft, SoftOutput, standard
from alu.attacks.adaptive.view import Level
from alu.detectors import LogitShift
from alu.evaluation.harmless import gaussian_noise
from alu.rng import generator
from alu.state import State
from tests.toys import CLASSES, Nudged, Toy, attacks_tried, toy_data, toy_defense, toy_images


def flagging(factor: float) -> Defense:
    """A defence with rule abstain whose threshold is `factor` times the calibrated one."""
    defense = toy_defense("abstain")
    assert isinstance(defense.detector, LogitShift)
    defense.detector.scores_ = factor * defense.detector.scores_
    return defense


def test_the_soft_output_hardens_into_the_rule() -> None:
    defense, data = toy_defense(), toy_data(8)
    noise = 0.3 * torch.randn(data.images.shape, generator=generator(0, "noise"))
    images = (data.images + noise).clamp(0, 1)
    soft = adaptive.SoftOutput(defense, Level(), temperature=1e-6)(images)
    assert torch.equal(soft.argmax(1), defense.decide(images).label)


def test_under_graded_the_soft_output_hardens_into_the_answer_of_every_state() -> None:
    defense, images = toy_defense("graded"), toy_images(24)
    specked = images[:4].clone()
    specked[:, :, 3, 3] = 1 - specked[:, :, 3, 3].round()
    everything = torch.cat([images, gaussian_noise(images[:4], 0.3), specked])
    decision = defense.decide(everything)
    assert set(decision.state.tolist()) == set(State), "every branch must be exercised"
    soft = SoftOutput(defense, Level(), temperature=1e-7)
    expected = standard(defense(everything))
    torch.testing.assert_close(soft(everything), expected, rtol=1e-3, atol=1e-3)
    at = everything.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(SoftOutput(defense, Level(), 0.25)(at)[:, 0].sum(), at)
    assert bool((gradient.flatten(1).abs().amax(1) > 0).all())


def test_under_abstain_a_flagged_image_is_no_success() -> None:
    data = toy_data(6)
    wrong = (data.labels + 1) % CLASSES
    for factor, won in ((1e-4, False), (1e4, True)):
        output = SoftOutput(flagging(factor), Level(), 0.05)
        # Π is wrong about every one of these labels; only what is not flagged is an answer.
        assert bool((OnSoft(output, CWLinf()).already_wrong(output, data.images, wrong) == won).all())
        assert output.label is None


def test_under_abstain_images_are_attacked_class_by_class() -> None:
    attack, data = Nudged(), toy_data(8)
    output = SoftOutput(flagging(1.0), Level(), 0.25)
    adversarial = OnSoft(output, attack)(Toy(), data.images, data.labels)
    assert [count for _, count in attack.asked] == data.labels.bincount()[data.labels.bincount() > 0].tolist()
    assert bool((adversarial != data.images).flatten(1).any(1).all())


def test_rounding_noise_does_not_drown_the_gradient_where_logits_do_not_change() -> None:
    defense, images = toy_defense("alu", "reconstruction"), toy_images(4)
    output = SoftOutput(defense, Level("surrogate", 0), 1.0)
    gradients = []
    for answer in (output, lambda at: standard(output.view.evidence(at).post_logits)):
        at = images.clone().requires_grad_(True)
        logits = answer(at)
        (gradient,) = torch.autograd.grad(logits[:, 0].sum() - logits[:, 1].sum(), at)
        gradients.append(gradient.flatten(1))
    # With Δ = 0 the gate's branch is flat: what is left is the other branch, smaller.
    assert float(torch.cosine_similarity(*gradients).min()) > 0.99


def test_soft_tries_every_loss_at_every_temperature() -> None:
    defense = toy_defense()
    assert attacks_tried(Soft(budget="quick"), defense) == {"CWLinf": 3, "APGDCE": 3}
    assert attacks_tried(Soft(budget="standard"), defense) == {"CWLinf": 3, "APGDCE": 3, "APGDDLR": 3, "APGDT": 3}


@pytest.mark.parametrize(("budget", "count"), [("quick", 0), ("standard", 1), ("full", 1)])
def test_a_defence_that_stands_faces_autoattack_on_its_soft_output(
    monkeypatch: pytest.MonkeyPatch, budget: str, count: int
) -> None:
    faced: list[tuple[Any, int]] = []

    def seen(self: AutoAttack, model: Any, images: Tensor, *_: Any, **__: Any) -> Tensor:
        faced.append((model, len(images)))
        return images

    monkeypatch.setattr(AutoAttack, "__call__", seen)
    defense, images = toy_defense(), toy_images(6)
    labels = defense.decide(images).label
    last = list(Soft(budget=budget).last_tries(defense))
    assert [type(attempt) for attempt in last] == [OnSoft] * count
    # The ball is too small for any success: every image is still there at the end.
    Soft(eps=1e-6, steps=1, budget=budget)(defense, images, labels)
    assert sum(number for _, number in faced) == len(images) * count
    if count:
        # The middle temperature is wrong about some of them; those are attacked where the output is sharper.
        (middle, kept), (sharp, _) = faced
        assert int((middle(images).argmax(1) == labels).sum()) == kept < len(images)
        assert torch.equal(sharp(images).argmax(1), labels)
