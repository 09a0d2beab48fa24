"""Learned steps: one ordinary network, whose gradient is exact, around a VAE that stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import alu
from alu import Defense, models
from alu.detectors import LogitShift
from alu.errors import UsageError
from alu.loading import load_purifier
from alu.models.amortised import Amortised
from alu.purifiers import LatentVAE, learned
from tests.conftest import smooth_images
from tests.contracts.parts import LinearClassifier, images_like, small_amortised, small_vae
from tests.toys import purified_logit, relative_error

SHAPE = (3, 16, 16)


def network(steps: int = 2) -> Amortised:
    found = small_amortised(SHAPE, steps)
    assert isinstance(found, Amortised)
    return found


@pytest.mark.parametrize("grad_mode", ["unrolled", "implicit"])
def test_the_gradient_is_exact(grad_mode: str) -> None:
    purifier = LatentVAE(network().double(), solver="learned")
    assert relative_error(purified_logit(purifier, grad_mode), smooth_images(2)) <= 1e-6
    # The stand-in leaves the corrections out, which the check itself notices.
    assert relative_error(purified_logit(purifier, "surrogate"), smooth_images(2)) > 1e-3


def test_traits_are_those_of_a_network() -> None:
    for steps in (0, 1, 2):
        traits = LatentVAE(network(), solver="learned", steps=steps).traits
        assert (traits.gradient, traits.iterative, traits.stochastic) == ("exact", False, False)
    assert LatentVAE(network(), solver="adam").traits.gradient == "twin"


def test_each_step_adds_what_its_network_says_of_the_residual() -> None:
    vae, images = network(), images_like(3, SHAPE)
    with torch.no_grad():
        code = vae.fitted(images - 0.5)[:, :4]
        expected = [vae.decode(code)]
        for correction in vae.corrections:
            output, early, late = vae.vae.decode_with_features(code)
            assert torch.equal(output, vae.decode(code)), "the features are taken on the way to the same image"
            code = code + correction(code, images - vae.decode(code), early, late)
            expected.append(vae.decode(code))
    for steps, output in enumerate(expected):
        purifier = LatentVAE(vae, solver="learned", steps=steps)
        torch.testing.assert_close(purifier(images), output)
        torch.testing.assert_close(purifier.reconstruct(images), expected[0])
    assert not torch.allclose(expected[0], expected[1])
    assert not torch.allclose(expected[1], expected[2])
    path = LatentVAE(vae, solver="learned").outputs(images, (0, 1, 2))
    for output, found in zip(expected, path, strict=True):
        torch.testing.assert_close(found, output)


def test_an_untrained_one_is_its_vae_and_the_loop_in_it_is_the_vaes_own() -> None:
    vae, images = small_vae(SHAPE), images_like(3, SHAPE)
    made = models.amortised(latent=4, width=16, breadth=16, steps=2).around(vae).eval()  # type: ignore[operator]
    torch.testing.assert_close(LatentVAE(made, solver="learned")(images), LatentVAE(vae, steps=0)(images))
    with torch.no_grad():  # training moves the fitted encoder, not the VAE's
        for weight in made.fitted.parameters():
            weight.mul_(1.5)
    assert torch.equal(LatentVAE(made, steps=3)(images), LatentVAE(vae, steps=3)(images))
    assert not torch.allclose(LatentVAE(made, solver="learned")(images), LatentVAE(vae, steps=0)(images))


def test_saved_and_loaded_inside_a_defence(tmp_path: Path) -> None:
    purifier, images = LatentVAE(network(), solver="learned", steps=1), images_like(40, SHAPE)
    defense = Defense(LinearClassifier(SHAPE, 4), purifier, LogitShift(0.1)).calibrate(images)
    defense.save(tmp_path / "saved")
    again = alu.load(tmp_path / "saved", classifier=defense.classifier)
    assert isinstance(again, Defense)
    assert again.purifier.description() == purifier.description()
    assert (again.purifier.solver, again.purifier.steps) == ("learned", 1)
    assert torch.equal(again.decide(images[:5]).post_logits, defense.decide(images[:5]).post_logits)


def test_a_file_is_a_purifier_by_its_name(tmp_path: Path) -> None:
    made, images = network(), images_like(2, SHAPE)
    card = models.Card("mine", "vae", made.architecture, "", "", "", "MIT", "")  # type: ignore[arg-type]
    path = models.save(made, card, tmp_path)
    purifier = load_purifier(str(path))
    assert isinstance(purifier, LatentVAE)
    assert (purifier.solver, purifier.steps) == ("learned", 2)
    torch.testing.assert_close(purifier(images), LatentVAE(made, solver="learned")(images))
    assert load_purifier(f"{path}@1").steps == 1


def test_the_name_of_a_bundled_vae_stands_for_its_network(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(learned, "names", lambda task=None: ["one-vae", "one-vae-learned", "two-vae"])
    monkeypatch.setattr(learned, "load", lambda name: asked.append(name) or network())
    LatentVAE("one-vae", solver="learned")
    LatentVAE("one-vae-learned", solver="learned")
    assert asked == ["one-vae-learned"] * 2
    with pytest.raises(UsageError, match="The bundled VAE two-vae has no learned steps yet. Train them: alu train two"):
        LatentVAE("two-vae", solver="learned")


def test_what_does_not_fit_is_refused_in_a_sentence() -> None:
    with pytest.raises(UsageError, match="LatentVAE needs steps from 0 to 2, which is how many were trained; .* 20"):
        LatentVAE(network(), solver="learned", steps=20)
    with pytest.raises(UsageError, match="needs steps >= 0"):
        LatentVAE(network(), solver="learned", steps=-1)
    with pytest.raises(UsageError, match="needs a VAE with learned steps; VAE has none"):
        LatentVAE(small_vae(SHAPE), solver="learned")
    for setting in ({"lr": 0.1}, {"start": "random"}, {"objective": "mse"}, {"prior": 0.1}, {"twin_lr": 0.1}):
        (name,) = setting
        with pytest.raises(UsageError, match=f"solver='learned' takes no {name}; it was given"):
            LatentVAE(network(), solver="learned", **setting)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="There is no solver 'lerned'. Did you mean learned"):
        LatentVAE(network(), solver="lerned")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="amortised needs steps >= 0 and breadth >= 2"):
        models.amortised(steps=-1)
