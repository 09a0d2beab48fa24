"""The gradient modes of a whole defence, in float64 on tiny smooth networks."""

from __future__ import annotations

import pytest
import torch

from alu import Defense, State, detectors
from alu.purifiers import BitDepth, Blur, LatentVAE
from tests.conftest import SmoothClassifier, smooth_images
from tests.toys import relative_error, tiny_vae


@pytest.mark.parametrize("reference", ["input", "reconstruction"])
@pytest.mark.parametrize("rule", ["alu", "purified", "abstain"])
def test_a_defense_differentiates_what_it_answers(reference: str, rule: str) -> None:
    purifier = LatentVAE(tiny_vae(), steps=4, lr=0.02, solver="gd", schedule="constant")
    classifier = SmoothClassifier().double()
    defense = Defense(classifier, purifier, detectors.LogitShift(0.3), rule=rule, reference=reference)
    defense.calibrate(smooth_images(30, seed=9))
    images = smooth_images(8, seed=4)
    flagged = defense.decide(images).flagged
    assert flagged.any(), "both branches must be exercised"
    assert not flagged.all()
    assert relative_error(lambda x: defense(x)[:, 0].sum(), images, step=1e-6) <= 1e-4


def test_graded_differentiates_what_it_answers_in_every_state() -> None:
    purifier = LatentVAE(tiny_vae(), steps=4, lr=0.02, solver="gd", schedule="constant")
    defense = Defense(SmoothClassifier().double(), purifier, detectors.LogitShift(0.1), "graded", suspicious=0.4)
    defense.calibrate(smooth_images(30, seed=9))
    noise = torch.randn((2, *defense.shape), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    images = smooth_images(24, seed=4)
    images = torch.cat([images, (images[:2] + 0.2 * noise).clamp(0.01, 0.99)])
    assert set(defense.decide(images).state.tolist()) == set(State), "every branch must be exercised"
    assert relative_error(lambda x: defense(x)[:, 0].sum(), images, step=1e-6) <= 1e-4


@pytest.mark.parametrize("grad_mode", ["blind", "bpda", "surrogate", "unrolled", "implicit"])
def test_every_mode_has_the_same_forward(grad_mode: str) -> None:
    images = smooth_images(6, seed=4)
    purifier = LatentVAE(tiny_vae(), steps=4, lr=0.05, solver="adam")
    defense = Defense(SmoothClassifier().double(), purifier, detectors.LogitShift(0.2)).calibrate(smooth_images(20))
    with torch.no_grad():
        plain = defense(images)
    defense.grad_mode = grad_mode
    attacked = images.clone().requires_grad_(True)
    answer = defense(attacked)
    torch.testing.assert_close(answer.detach(), plain, rtol=0, atol=1e-12)
    (gradient,) = torch.autograd.grad(answer[:, 0].sum(), attacked)
    assert float(gradient.abs().max()) > 0


def test_blind_is_the_gradient_of_the_bare_classifier() -> None:
    classifier = SmoothClassifier().double()
    defense = Defense(classifier, Blur(1.0), detectors.LogitShift(0.2), grad_mode="blind").calibrate(smooth_images(20))
    images = smooth_images(3, seed=4).requires_grad_(True)
    (gradient,) = torch.autograd.grad(defense(images)[:, 2].sum(), images)
    (expected,) = torch.autograd.grad(classifier(images)[:, 2].sum(), images)
    torch.testing.assert_close(gradient, expected)


def test_bpda_passes_the_gradient_at_the_purified_image() -> None:
    classifier = SmoothClassifier().double()
    defense = Defense(classifier, BitDepth(3), rule="purified", grad_mode="bpda")
    images = smooth_images(3, seed=4).requires_grad_(True)
    (gradient,) = torch.autograd.grad(defense(images)[:, 2].sum(), images)
    purified = BitDepth(3)(images.detach()).requires_grad_(True)
    (expected,) = torch.autograd.grad(classifier(purified)[:, 2].sum(), purified)
    torch.testing.assert_close(gradient, expected)
