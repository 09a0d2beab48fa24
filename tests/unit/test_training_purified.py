"""Unified ALU, guided denoising and AWP against values worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from alu import models
from alu.errors import UsageError
from alu.purifiers import InnerVAE
from alu.training.adversarial import AdversarialObjective, AdversarialTraining, Friendly, Gairat, Mart, Trades
from alu.training.awp import AWP
from alu.training.objectives import Classification, Consistency
from alu.training.purified import AsymmetricUnified, GuidedDenoising, NoiseDenoising, Unified
from alu.training.recipes import seeded
from tests.toys import EPS, Brightness, batch, entropy, small_asymmetric


class Halving(nn.Module):
    """A VAE whose code is half the image and whose image is the code: D(E(x)) = x / 2."""

    def encode(self, images: Tensor) -> tuple[Tensor, Tensor]:
        return images / 2, torch.zeros_like(images)

    def decode(self, code: Tensor) -> Tensor:
        return code


def test_unified_by_hand() -> None:
    # One step of the purifier's Adam (rate 0.05) moves a code that is too dark up by 0.05, whatever the gradient.
    objective = Unified(Halving(), steps=1, stepped=0.5)
    given = batch(0.8, 0.6, labels=(0, 0))
    loss, parts = objective.loss(Brightness(), given)
    stepped, plain = 10 * (0.8 / 2 + 0.05 - 0.5), 10 * (0.6 / 2 - 0.5)
    assert float(loss.detach()) == pytest.approx((entropy(stepped) + entropy(plain)) / 2, rel=1e-5)
    assert float(parts["accuracy"]) == 0.0


def test_unified_takes_the_latent_steps_it_is_told() -> None:
    # Gradient descent on the squared error with rate 1/4 goes half of the way from 0.4 to 0.8, whatever the picture.
    objective = Unified(Halving(), steps=1, stepped=1.0, latent={"solver": "gd", "lr": 0.25, "schedule": "constant"})
    loss, _ = objective.loss(Brightness(), batch(0.8, labels=(0,)))
    assert float(loss.detach()) == pytest.approx(entropy(10 * (0.6 - 0.5)), rel=1e-5)
    assert objective.as_json()["latent"]["lr"] == 0.25
    assert "latent" not in Unified(Halving()).as_json(), "older runs of the recipe go on"


def test_unified_without_steps_is_the_reconstruction_alone() -> None:
    loss, _ = Unified(Halving(), stepped=0.0).loss(Brightness(), batch(0.8, 0.6, labels=(0, 0)))
    assert float(loss.detach()) == pytest.approx((entropy(-1.0) + entropy(-2.0)) / 2, rel=1e-5)


def test_unified_smooths_labels() -> None:
    loss, _ = Unified(Halving(), stepped=0.0, smoothing=0.2).loss(Brightness(), batch(0.8, labels=(0,)))
    assert float(loss.detach()) == pytest.approx(0.9 * entropy(-1.0) + 0.1 * entropy(1.0), rel=1e-5)


def test_unified_measures_before_and_after_steps() -> None:
    # At 0.96 the reconstruction, 0.48, is on the wrong side of 0.5; 20 steps reach the image itself.
    found = Unified(Halving()).measure(Brightness(), torch.full((1, 1, 4, 4), 0.96), torch.tensor([0]))
    assert [float(found[name]) for name in ("accuracy", "accuracy_after_steps")] == [0.0, 1.0]


def test_a_vae_that_is_not_bundled_is_told_apart_by_its_weights() -> None:
    first, second = (seeded(lambda: models.vae(latent=4, width=8), seed) for seed in (0, 1))
    assert Unified(first).as_json() == Unified(first).as_json() != Unified(second).as_json()


class Darker(nn.Module):
    """A denoiser that takes 0.01 off every pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.amount = nn.Parameter(torch.tensor(0.01))

    def forward(self, images: Tensor) -> Tensor:
        return images - self.amount


def test_guided_denoising_by_hand() -> None:
    # Both logits of the attacked image are off by 10 (eps + 0.01), those of the clean one by 10 * 0.01.
    model = Darker()
    loss, parts = GuidedDenoising(Brightness(), steps=20, clean=0.5).loss(model, batch(0.7, 0.6))
    assert float(parts["attacked"].detach()) == pytest.approx(20 * (EPS + 0.01), rel=1e-4)
    assert float(parts["clean"].detach()) == pytest.approx(20 * 0.01, rel=1e-4)
    assert float(loss.detach()) == pytest.approx(10 * (EPS + 0.02), rel=1e-4)
    (gradient,) = torch.autograd.grad(loss, model.amount)
    assert float(gradient) == pytest.approx(20.0, rel=1e-4)


def test_the_guide_is_a_frozen_copy() -> None:
    classifier, model = Brightness(), Darker()
    objective = GuidedDenoising(classifier, steps=2)
    objective.loss(model, batch(0.7, 0.6))[0].backward()
    assert classifier.gain.requires_grad
    assert classifier.gain.grad is None
    assert objective.classifier.gain.grad is None
    assert model.amount.grad is not None


def test_noise_denoising_by_hand() -> None:
    # Without noise the copies are the images: each is 0.01 too dark after denoising, and its own answer is the label.
    model, given = Darker(), batch(0.7, 0.3, labels=(1, 1))
    objective = NoiseDenoising(Brightness(), sigma=0.0, pixels=100.0, warmup=0.5, weight=3.0, entropy=2.0)
    loss, parts = objective.loss(model, given)
    assert float(parts["squared_error"].detach()) == pytest.approx(1e-4, rel=1e-3)
    assert float(parts["accuracy"]) == 1.0
    values = [10 * (0.69 - 0.5), 10 * (0.5 - 0.29)]
    plain = sum(map(entropy, values)) / 2 + 100 * 1e-4
    chances = [1 / (1 + math.exp(-2 * value)) for value in values]
    spread = sum(-(p * math.log(p) + (1 - p) * math.log(1 - p)) for p in chances) / 2
    assert float(loss.detach()) == pytest.approx(plain + 2.0 * spread, rel=1e-4)
    for done, strength in ((0.0, 0.0), (0.25, 0.5), (0.5, 1.0)):
        given.done = done
        again, _ = objective.loss(model, given)
        assert float(again.detach()) == pytest.approx(plain + strength * 2.0 * spread, rel=1e-4)
    (gradient,) = torch.autograd.grad(loss, model.amount)
    assert float(gradient) != 0.0
    assert objective.classifier.gain.grad is None


def test_noise_denoising_is_consistency_behind_the_denoiser() -> None:
    settings = {"sigma": 0.3, "weight": 2.0, "entropy": 0.5}
    through, _ = NoiseDenoising(Brightness(), pixels=0.0, **settings).loss(nn.Identity(), batch(0.7, 0.6))
    alone, parts = Consistency(**settings).loss(Brightness(), batch(0.7, 0.6))
    assert float(through) == pytest.approx(float(alone.detach()), rel=1e-5)
    assert float(parts["divergence"].detach()) > 0.0
    found = NoiseDenoising(Brightness(), sigma=0.3).measure(
        Darker(), torch.full((1, 1, 4, 4), 0.505), torch.tensor([0])
    )
    assert float(found["accuracy"]) == 0.0, "measured through the denoiser"
    one, other = (NoiseDenoising(Brightness(gain), sigma=0.3).as_json() for gain in (10.0, 9.0))
    assert one == NoiseDenoising(Brightness(10.0), sigma=0.3).as_json() != other


def test_the_attack_starts_elsewhere_in_every_batch() -> None:
    seen: list[Tensor] = []

    class Remembering(Darker):
        def forward(self, images: Tensor) -> Tensor:
            seen.append(images[:1].detach().clone())
            return super().forward(images)

    objective = GuidedDenoising(Brightness(), steps=1, step_size=0.1 * EPS)
    given = batch(0.7, 0.6)
    for _ in range(2):  # the same stream of random numbers, further on
        objective.loss(Remembering(), given)
    assert not torch.equal(seen[0], seen[1])


class Linear(nn.Module):
    """Logits W m, m the mean pixel and W = (3, -1)."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[3.0], [-1.0]]))

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1).mean(1, keepdim=True) @ self.weight.T


def test_weight_perturbation_by_hand() -> None:
    model, gamma = Linear(), 0.1
    before = model.weight.detach().clone()
    loss, _ = AWP(AdversarialTraining(steps=1, step_size=2 * EPS), gamma).loss(model, batch(0.7))
    # Up the loss of class 0 is along (-1, 1) / √2; v is gamma ‖W‖ = 0.1 √10 long and narrows the margin of 4.
    at, margin = 0.7 - EPS, 4 - gamma * math.sqrt(10) * math.sqrt(2)
    assert float(loss.detach()) == pytest.approx(math.log1p(math.exp(-margin * at)), rel=1e-5)
    loss.backward()
    slope = at / (1 + math.exp(margin * at))
    assert model.weight.grad is not None
    assert model.weight.grad.flatten().tolist() == pytest.approx([-slope, slope], rel=1e-5)
    assert torch.equal(model.weight.detach(), before), "the weights themselves are never changed"


@pytest.mark.parametrize(
    "inner", [AdversarialTraining(steps=2), Trades(steps=2), Friendly(steps=2), Gairat(steps=2), Mart(steps=2)]
)
def test_weight_perturbation_of_a_network_equals_moving_and_restoring_it(inner: AdversarialObjective) -> None:
    def network() -> nn.Module:
        return seeded(lambda: models.resnet18(2, channels=1, width=4), 1).double()

    given = batch(0.7, 0.3, 0.6, 0.45)
    given.images = given.images.double()
    model, moved = network(), network()
    AWP(inner, 0.01).loss(model, given)[0].backward()
    again = batch(0.7, 0.3, 0.6, 0.45)
    again.images = again.images.double()
    found = inner.found(moved, again)
    kernels = [weight for weight in moved.parameters() if weight.ndim > 1]
    gradients = torch.autograd.grad(inner.loss_on(moved, again, found)[0], kernels)
    with torch.no_grad():
        for weight, gradient in zip(kernels, gradients, strict=True):
            weight.add_(0.01 * weight.norm() * gradient / gradient.norm().clamp_min(1e-20))
    inner.loss_on(moved, again, found)[0].backward()
    for (name, weight), other in zip(model.named_parameters(), moved.parameters(), strict=True):
        torch.testing.assert_close(weight.grad, other.grad, msg=name)


def test_weight_perturbation_refuses_what_it_cannot_wrap() -> None:
    with pytest.raises(UsageError, match="such as Trades"):
        AWP(Classification())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="gamma above 0"):
        AWP(Trades(), gamma=0.0)


def test_only_the_head_is_trained_and_the_loss_is_the_cross_entropy_of_the_features() -> None:
    model = small_asymmetric(1)
    given = batch(0.8, 0.3, 0.6, 0.1, labels=(0, 1, 0, 3))
    loss, _ = AsymmetricUnified(steps=2, stepped=0.5).loss(model, given)
    with torch.no_grad():
        first = InnerVAE(model, steps=2)(given.images[:2])
        rest = model.inner(model.encode(given.images[2:])[0])
        logits = model.head(torch.cat([first, rest]))
    expected = -logits.log_softmax(1)[range(4), given.labels].mean()
    assert float(loss.detach()) == pytest.approx(float(expected), rel=1e-5)
    loss.backward()
    assert all(weight.grad is None for weight in model.vae.parameters())
    assert all(weight.grad is not None for weight in model.head.parameters())
