"""InnerVAE: the features of the optimised code, with every gradient."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from alu import Defense
from alu.detectors import LogitShift
from alu.purifiers import GRAD_MODES, InnerVAE, LatentVAE
from tests.contracts.parts import images_like
from tests.toys import small_asymmetric


def test_the_purifier_hands_out_the_features_of_the_optimised_code() -> None:
    model, images = small_asymmetric(), images_like(3, (3, 18, 16))  # 18 is padded to 20
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
    model, images = small_asymmetric(), images_like(30, (3, 16, 16))
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
    model = small_asymmetric().double()
    images = images_like(2, (3, 16, 16)).double()
    inner = InnerVAE(model, steps=3, solver="gd", lr=1e-3, schedule="constant")
    value = inner(images)
    attacked = images.clone().requires_grad_(True)
    features = inner(attacked, mode)
    torch.testing.assert_close(features.detach(), value)
    (gradient,) = torch.autograd.grad(features.square().sum(), attacked)
    assert float(gradient.abs().max()) > 0


def test_the_unrolled_gradient_is_exact() -> None:
    model = small_asymmetric(1).double()
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
