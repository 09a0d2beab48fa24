"""The deep VAE: shapes of code and images, its description, its gradients, and the closed form of a linear decoder."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

import alu
from alu import models
from alu.errors import InputError, UsageError
from alu.models.deep_vae import DeepVAE
from alu.purifiers import LatentVAE
from alu.purifiers.solvers import LatentProblem, stable_rate
from alu.training.recipes import seeded
from tests.contracts.parts import LinearClassifier, awake, images_like


def network(**settings: object) -> DeepVAE:
    made = seeded(lambda: models.deep_vae(**{"size": 16, "code": 32, "width": 8, **settings}), 0)  # type: ignore[arg-type]
    assert isinstance(made, DeepVAE)
    return made.eval()


def orthonormal(made: DeepVAE) -> Tensor:
    """Give a dense linear decoder orthonormal directions; returns them [code, values]."""
    with torch.no_grad():
        made.linear.weight.copy_(torch.linalg.qr(made.linear.weight)[0])
    return made.linear.weight.detach().T


@pytest.mark.parametrize("encoder", ["whitened", "deep", "shallow"])
@pytest.mark.parametrize(("layout", "shape"), [("dense", (32,)), ("spatial", (2, 4, 4))])
@pytest.mark.parametrize("refine", [0, 8])
def test_code_and_images_have_their_shapes(encoder: str, layout: str, shape: tuple[int, ...], refine: int) -> None:
    made, images = network(encoder=encoder, layout=layout, refine=refine), images_like(3, (3, 16, 16))
    mean, logvar = made.encode(images)
    assert mean.shape == logvar.shape == (3, *shape)
    assert made.decode(mean).shape == images.shape
    again = models.rebuild(made.architecture).eval()  # type: ignore[arg-type]
    again.load_state_dict(made.state_dict())
    assert torch.equal(again(images), made(images))


def test_a_gray_picture_of_another_size() -> None:
    made = network(channels=1, size=24, code=7)
    assert made(images_like(2, (1, 24, 24))).shape == (2, 1, 24, 24)


def test_a_new_decoder_is_linear_and_its_correction_learns() -> None:
    made, codes = network(refine=8), torch.randn((4, 32), generator=torch.Generator().manual_seed(0))
    linear = network(refine=0).decode
    made.linear.load_state_dict(network(refine=0).linear.state_dict())
    torch.testing.assert_close(made.decode(codes), linear(codes))
    assert not torch.allclose(awake(made).decode(codes), linear(codes), atol=1e-3)
    twice = network().decode(2 * codes) - network().decode(0 * codes)
    torch.testing.assert_close(twice, 2 * (network().decode(codes) - network().decode(0 * codes)))


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_one_step_goes_a_share_of_the_way_to_the_projection(share: float) -> None:
    """What the testbed rests on: with orthonormal directions a rate of half the share is that share of the way."""
    made, images = network(), images_like(5, (3, 16, 16))
    directions = orthonormal(made)
    mean = made.decode(torch.zeros(1, 32)).flatten(1)
    best = (images.flatten(1) - mean) @ directions.T
    expected = torch.lerp(made.encode(images)[0], best, share)
    purifier = LatentVAE(made, steps=1, lr=share / 2, solver="gd", schedule="constant")
    torch.testing.assert_close(purifier.code(images), expected)
    assert stable_rate(LatentProblem(made.decode), torch.zeros(1, 32)) == pytest.approx(0.25), "half of 1/(2 * 1)"


@pytest.mark.parametrize("layout", ["dense", "spatial"])
@pytest.mark.parametrize("mode", ["unrolled", "surrogate"])
def test_the_gradient_is_that_of_differences(layout: str, mode: str) -> None:
    made = awake(network(size=8, code=8, layout=layout, refine=8, encoder="shallow"), 0.01).double()
    purifier = LatentVAE(made, steps=3, lr=0.05, solver="gd", schedule="constant")
    images = (0.4 + 0.2 * images_like(1, (3, 8, 8)).double()).requires_grad_(True)
    weights = torch.randn(images.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def value(at: Tensor) -> Tensor:
        shown = made(at) if mode == "surrogate" else purifier.purify(at, "unrolled").purified
        return (weights * shown).sum()

    output = purifier.purify(images, mode).purified  # type: ignore[arg-type]
    assert ((output > 0) & (output < 1)).all(), "clipping would hide the gradient"
    (gradient,) = torch.autograd.grad((weights * output).sum(), images)
    way = torch.randn(images.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    with torch.no_grad():
        ahead, behind = (value(images + sign * 1e-6 * way) for sign in (1, -1))
    assert float((gradient * way).sum()) == pytest.approx(float(ahead - behind) / 2e-6, rel=1e-4)


def test_smaller_pictures_are_padded_and_larger_ones_refused() -> None:
    purifier = LatentVAE(network(), steps=2, lr=0.01, solver="gd")
    assert purifier(images_like(2, (3, 13, 16))).shape == (2, 3, 13, 16)
    with pytest.raises(InputError, match=r"reads images of shape \[3, 16, 16\]; these have \[3, 32, 16\]"):
        purifier(images_like(2, (3, 20, 16)))


def test_codes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UsageError, match="A spatial code of 16 x 16 images has a multiple of 16 values; .* given 24"):
        models.deep_vae(size=16, code=24, layout="spatial")
    with pytest.raises(UsageError, match="whose side is a multiple of 8; it was given a size of 28"):
        models.deep_vae(size=28)
    with pytest.raises(UsageError, match="depe"):
        models.deep_vae(encoder="depe")  # type: ignore[arg-type]


def test_it_is_saved_loaded_and_exported(tmp_path: Path) -> None:
    made = awake(network(refine=8))
    facts = models.Card("toy", "vae", made.architecture, "", "", "", "", "")  # type: ignore[arg-type]
    again = models.load_file(models.save(made, facts, tmp_path))
    purifier = LatentVAE(again, steps=3, lr=0.05, solver="gd", schedule="constant")
    images = images_like(60, (3, 16, 16))
    defense = alu.Defense(
        LinearClassifier((3, 16, 16), 3), purifier, alu.detectors.LogitShift(0.1), reference="reconstruction"
    )
    defense.calibrate(images[:40])
    alu.export(defense, tmp_path / "export")
    shown = alu.exported.load(tmp_path / "export").decide(images[40:].numpy())
    assert shown.label.tolist() == defense.decide(images[40:]).label.tolist()
