"""The gradient modes against central differences, in float64 on tiny smooth networks."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from torch import Tensor

from alu import Defense, detectors, models
from alu.purifiers import JPEG, PCA, BitDepth, Blur, Chain, LatentVAE, Median
from alu.training.recipes import seeded
from tests.conftest import SmoothClassifier, smooth_images


def tiny_vae(latent: int = 4) -> torch.nn.Module:
    """A decoder with a code smaller than the image, so that the residual is not zero."""
    made = seeded(lambda: models.vae(channels=3, latent=latent, width=8), 1).double()
    with torch.no_grad():
        for weight in made.parameters():
            weight.mul_(1.5)
    return made


def relative_error(function: object, images: Tensor, count: int = 5, step: float = 1e-5) -> float:
    """Error of the directional derivatives, relative to their size, along the gradient itself and random directions."""
    images = images.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(function(images), images)  # type: ignore[operator]
    stream = torch.Generator().manual_seed(3)
    directions = [gradient, *(torch.randn(images.shape, generator=stream, dtype=images.dtype) for _ in range(count))]
    found, expected = [], []
    for direction in (d / d.norm() for d in directions):
        with torch.no_grad():
            high = function(images + step * direction)  # type: ignore[operator]
            low = function(images - step * direction)  # type: ignore[operator]
        expected.append(float((high - low) / (2 * step)))
        found.append(float((gradient * direction).sum()))
    size = sum(value**2 for value in expected) ** 0.5
    return sum((f - e) ** 2 for f, e in zip(found, expected, strict=True)) ** 0.5 / size


def objective(purifier: object, grad_mode: str) -> object:
    classifier = SmoothClassifier().double()

    def value(images: Tensor) -> Tensor:
        return classifier(purifier.purify(images, grad_mode).purified)[:, 1].sum()  # type: ignore[attr-defined]

    return value


@pytest.mark.parametrize("kind", ["sse", "mse", "norm"])
@pytest.mark.parametrize("start", ["encoder", "random"])
@pytest.mark.parametrize("prior", [0.0, 0.05])
def test_unrolled_is_exact(kind: str, start: str, prior: float) -> None:
    rate = {"sse": 0.02, "mse": 2.0, "norm": 0.1}[kind]
    purifier = LatentVAE(
        tiny_vae(), steps=6, lr=rate, solver="gd", objective=kind, start=start, prior=prior, schedule="constant"
    )
    assert relative_error(objective(purifier, "unrolled"), smooth_images(2)) <= 1e-4


def test_unrolled_is_exact_with_a_falling_rate() -> None:
    purifier = LatentVAE(tiny_vae(), steps=5, lr=0.03, solver="gd", schedule="cosine")
    assert relative_error(objective(purifier, "unrolled"), smooth_images(2)) <= 1e-4


def test_surrogate_is_not_exact_after_steps() -> None:
    # The check itself can tell a wrong gradient from a right one.
    purifier = LatentVAE(tiny_vae(), steps=6, lr=0.02, solver="gd", schedule="constant")
    assert relative_error(objective(purifier, "surrogate"), smooth_images(2)) > 1e-3


def test_surrogate_is_exact_without_steps() -> None:
    purifier = LatentVAE(tiny_vae(), steps=0)
    assert relative_error(objective(purifier, "surrogate"), smooth_images(2)) <= 1e-6
    assert relative_error(objective(purifier, "unrolled"), smooth_images(2)) <= 1e-6


def test_implicit_agrees_at_convergence() -> None:
    images = smooth_images(2)
    purifier = LatentVAE(tiny_vae(latent=1), steps=600, lr=0.3, solver="gd", prior=0.02, schedule="constant")
    with torch.no_grad():
        residual = float((purifier(images) - images).norm())
    assert residual > 0.1, "the test must have a residual, or H and its Gauss-Newton part agree"
    assert relative_error(objective(purifier, "implicit"), images, count=3, step=1e-4) <= 1e-2


@pytest.mark.parametrize("kind", ["sse", "mse", "norm"])
def test_the_fallback_of_implicit_has_the_scale_of_its_objective(kind: str) -> None:
    # Far from a minimum H is indefinite and the Gauss-Newton part steps in; its scale cancels against that of H_xz.
    images = smooth_images(4).requires_grad_(True)
    gradients = []
    for objective_kind in ("sse", kind):
        purifier = LatentVAE(tiny_vae(latent=2), steps=0, objective=objective_kind, start="random")
        gradients.append(torch.autograd.grad(purifier(images, "implicit").square().sum(), images)[0])
    norms = [g.flatten(1).norm(dim=1) for g in gradients]
    assert ((norms[1] / norms[0] > 0.3) & (norms[1] / norms[0] < 3)).all()


@pytest.mark.parametrize("purifier", [Blur(0.8), Median(3), PCA(20), Chain(Blur(0.5), PCA(20))])
def test_filters_are_exact(purifier: object) -> None:
    parts = purifier.parts if isinstance(purifier, Chain) else [purifier]
    for part in parts:
        if isinstance(part, PCA):
            part.fit(smooth_images(40, seed=5))
    assert relative_error(objective(purifier, "unrolled"), smooth_images(2)) <= 1e-4


@pytest.mark.parametrize("purifier", [BitDepth(3), JPEG(50)])
def test_rounding_passes_a_useful_gradient(purifier: object) -> None:
    images = smooth_images(2).requires_grad_(True)
    (gradient,) = torch.autograd.grad(objective(purifier, "surrogate")(images), images)  # type: ignore[operator]
    assert float(gradient.norm()) > 1e-3


def test_adam_uses_its_twin() -> None:
    vae = tiny_vae()
    images = smooth_images(2).requires_grad_(True)
    adam = LatentVAE(vae, steps=5, lr=0.05, solver="adam", twin_lr=0.02)
    twin = LatentVAE(vae, steps=5, lr=0.02, solver="gd", schedule="constant")
    gradients = [torch.autograd.grad(p(images).square().sum(), images)[0] for p in (adam, twin)]
    weights = [p(images).detach() for p in (adam, twin)]
    assert not torch.equal(*weights), "the deployed values differ"
    # The twin's backward starts from the gradient at the deployed output, so the two agree only through the Jacobian.
    probe = torch.ones_like(images)
    jacobians = [torch.autograd.grad((p(images) * probe).sum(), images)[0] for p in (adam, twin)]
    torch.testing.assert_close(*jacobians)
    assert adam.traits.gradient == "twin"
    assert twin.traits.gradient == "exact"
    assert all(torch.isfinite(g).all() for g in gradients)


def test_the_twins_rate_is_stable() -> None:
    purifier = LatentVAE(tiny_vae(), steps=60, solver="adam")
    images = smooth_images(3).requires_grad_(True)
    (gradient,) = torch.autograd.grad(purifier(images).sum(), images)
    assert torch.isfinite(gradient).all()
    assert float(gradient.abs().max()) < 1e3


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
    (found,) = torch.autograd.grad(defense(images)[:, 2].sum(), images)
    (expected,) = torch.autograd.grad(classifier(images)[:, 2].sum(), images)
    torch.testing.assert_close(found, expected)


def test_bpda_passes_the_gradient_at_the_purified_image() -> None:
    classifier = SmoothClassifier().double()
    defense = Defense(classifier, BitDepth(3), rule="purified", grad_mode="bpda")
    images = smooth_images(3, seed=4).requires_grad_(True)
    (found,) = torch.autograd.grad(defense(images)[:, 2].sum(), images)
    purified = BitDepth(3)(images.detach()).requires_grad_(True)
    (expected,) = torch.autograd.grad(classifier(purified)[:, 2].sum(), purified)
    torch.testing.assert_close(found, expected)


# The peak is reset before the measurement: a child inherits its parent's peak, however large the tests have grown.
MEMORY = """
import sys, torch
from pathlib import Path
from alu import models
from alu.purifiers import LatentVAE
torch.set_num_threads(1)

def kilobytes(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1])

vae = models.vae(latent=4, width=48)
images = torch.rand(64, 3, 32, 32).requires_grad_(True)
warm = LatentVAE(vae, steps=1, lr=1e-4, solver="gd")
torch.autograd.grad(warm(images[:2]).sum(), images)
Path("/proc/self/clear_refs").write_text("5")
before = kilobytes("VmRSS")
torch.autograd.grad(LatentVAE(vae, steps=int(sys.argv[1]), lr=1e-4, solver="gd")(images).sum(), images)
print(kilobytes("VmHWM") - before)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc to measure peak memory")
def test_unrolled_memory_does_not_grow_with_the_steps() -> None:
    used = {}
    for steps in (5, 100):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(MEMORY), str(steps)], capture_output=True, text=True, check=True
        )
        used[steps] = int(done.stdout)
    assert used[5] > 1000, "the measurement must see the memory of one step"
    assert used[100] <= 2 * used[5], used
