"""Asymmetric Unified ALU: code -> inner decoder features -> logits, with every gradient, saved and loaded."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from alu import Defense, models
from alu.detectors import LogitShift
from alu.errors import UsageError
from alu.models.asymmetric import Asymmetric
from alu.purifiers import GRAD_MODES, InnerVAE, LatentVAE
from alu.training.purified import AsymmetricUnified
from alu.training.recipes import seeded
from tests.contracts.parts import images_like
from tests.toys import batch


def network(channels: int = 3) -> Asymmetric:
    made = seeded(lambda: models.asymmetric(4, channels, latent=4, vae_width=16, width=8), 2).eval()
    assert isinstance(made, Asymmetric)
    return made


def test_logits_by_hand() -> None:
    model, images = network(), images_like(3, (3, 16, 16))
    with torch.no_grad():
        code, _ = model.vae.encode(images)
        features = model.vae.decoder[5](model.vae.decoder[4](model.vae.decoder[3](
            model.vae.decoder[2](model.vae.decoder[1](model.vae.decoder[0](code))))))  # fmt: skip
        assert features.shape == (3, 8, 8, 8)
        assert torch.equal(model(images), model.head(features))
        assert torch.equal(model(features), model.head(features))
        # The features are what the rest of the decoder makes the image from.
        rest = model.vae.decoder[7](model.vae.decoder[6](features))
        assert torch.equal(torch.sigmoid(4 * rest), model.decode(code))


def test_the_purifier_hands_out_the_features_of_the_optimised_code() -> None:
    model, images = network(), images_like(3, (3, 18, 16))  # 18 is padded to 20
    plain = LatentVAE(model.vae, steps=4)
    inner = InnerVAE(model, steps=4)
    done = inner.purify(images, reconstruct=True)
    with torch.no_grad():
        padded = F.pad(images, (0, 0, 0, 2), mode="replicate")
        code = plain.code(padded)
        torch.testing.assert_close(done.purified, model.inner(code))
        assert done.reconstruction is not None
        torch.testing.assert_close(done.reconstruction, model.inner(model.encode(padded)[0]))
        assert float((done.purified - done.reconstruction).abs().max()) > 1e-3


def test_a_defence_compares_features_before_and_after(tmp_path: Path) -> None:
    model, images = network(), images_like(30, (3, 16, 16))
    defense = Defense(model, InnerVAE(model, steps=3), LogitShift(0.1)).calibrate(images[:20])
    decision = defense.decide(images[20:])
    with torch.no_grad():
        assert torch.allclose(decision.pre_logits, model(images[20:]))
        assert torch.allclose(decision.post_logits, model.head(InnerVAE(model, steps=3)(images[20:])), atol=1e-5)
    assert float((decision.post_logits - decision.pre_logits).abs().max()) > 1e-3
    defense.save(tmp_path / "defense")
    again = Defense.load(tmp_path / "defense", classifier=model)
    assert torch.equal(again.decide(images[20:]).post_logits, decision.post_logits)


@pytest.mark.parametrize("mode", [mode for mode in GRAD_MODES if mode != "blind"])
def test_every_gradient_mode_has_the_same_value_and_a_gradient(mode: str) -> None:
    model = network().double()
    images = images_like(2, (3, 16, 16)).double()
    inner = InnerVAE(model, steps=3, solver="gd", lr=1e-3, schedule="constant")
    value = inner(images)
    asked = images.clone().requires_grad_(True)
    found = inner(asked, mode)
    torch.testing.assert_close(found.detach(), value)
    (gradient,) = torch.autograd.grad(found.square().sum(), asked)
    assert float(gradient.abs().max()) > 0


def test_the_unrolled_gradient_is_exact() -> None:
    model = network(1).double()
    images = images_like(1, (1, 8, 8)).double().requires_grad_(True)
    inner = InnerVAE(model, steps=3, solver="gd", lr=1e-2, schedule="constant")
    weight = torch.linspace(-1, 1, 8 * 16, dtype=torch.float64).view(1, 8, 4, 4)
    (gradient,) = torch.autograd.grad((inner(images) * weight).sum(), images)
    step = torch.zeros_like(images)
    for row, column in ((0, 0), (3, 5), (7, 2)):
        step.zero_()
        step[0, 0, row, column] = 1e-6
        with torch.no_grad():
            change = ((inner(images + step) - inner(images - step)) * weight).sum() / 2e-6
        assert float(gradient[0, 0, row, column]) == pytest.approx(float(change), rel=1e-4, abs=1e-8)


def test_a_card_brings_it_back(tmp_path: Path) -> None:
    model, images = network(), images_like(2, (3, 16, 16))
    card = models.Card("inner", "classifier", model.architecture, "nothing", "none", "this test", "MIT", "")  # type: ignore[arg-type]
    again = models.load_file(models.save(model, card, tmp_path))
    with torch.no_grad():
        torch.testing.assert_close(again(images), model(images))
    assert not any(weight.requires_grad for weight in again.vae.parameters())  # type: ignore[union-attr]


def test_only_the_head_is_trained_and_the_loss_is_the_cross_entropy_of_the_features() -> None:
    model = network(1)
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


def test_other_networks_are_refused() -> None:
    with pytest.raises(UsageError, match="Use LatentVAE"):
        InnerVAE(models.vae(latent=4, width=8))
    with pytest.raises(UsageError, match="wider VAE"):
        models.asymmetric(channels=3, vae_width=6)
