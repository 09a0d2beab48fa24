"""Learned steps are trained on what they leave, around a VAE that does not change; an interrupted training goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import alu
from alu import data, models
from alu.check import AluWarning
from alu.errors import UsageError
from alu.fitting import Plan
from alu.models.amortised import Amortised
from alu.purifiers import LatentVAE
from alu.rng import generator
from alu.training.amortised import Amortising
from alu.training.batches import Batch, Draws
from alu.training.loop import Run, train
from alu.training.recipes import recipe, seeded
from alu.training.recipes.learned import around, train_with_learned
from alu.training.settings import Settings
from tests.contracts.parts import LinearClassifier, images_like, small_amortised, small_vae
from tests.toys import Killed

SHAPE = (3, 16, 16)


def pictures(count: int, seed: int = 0) -> data.Dataset:
    images = images_like(count, SHAPE, seed)
    return data.Dataset((images * 255).to(torch.uint8), torch.arange(count) % 2, ("a", "b"), "smooth", "train")


def test_the_loss_is_the_last_squared_error_and_a_share_of_the_earlier_ones() -> None:
    network, images = small_amortised(SHAPE, steps=2), images_like(6, SHAPE)
    batch = Batch(images, torch.zeros(6, dtype=torch.int64), Draws(generator(0, "test"), slice(0, 6), 6))
    left = []
    for steps in range(3):
        output = LatentVAE(network, solver="learned", steps=steps)(images)
        left.append(float((output - images).square().flatten(1).sum(1).mean()))
    for earlier in (0.0, 0.5):
        loss, parts = Amortising(earlier).loss(network, batch)
        assert float(loss.detach()) == pytest.approx(left[2] + earlier * (left[0] + left[1]) / 2, rel=1e-4)
        assert float(parts["rmse"].detach()) == pytest.approx((left[2] / images[0].numel()) ** 0.5, rel=1e-4)
    measured = Amortising().measure(network, images, batch.labels)
    assert list(measured) == ["squared_error", "squared_error_0", "squared_error_1"]
    assert float(measured["squared_error_1"].detach().mean()) * images[0].numel() == pytest.approx(left[1], rel=1e-4)


def trained(folder: Path | None, epochs: int = 12, stop: int | None = None) -> Run:
    vae = small_vae(SHAPE)
    settings = Settings(epochs=epochs, batch_size=20, optimizer="adam", lr=3e-3, augment="flip")
    run = Run(seeded(lambda: around(vae), 0), Amortising(), pictures(60), pictures(40, 1), settings, folder)

    def watch(step: int, total: int, figures: dict[str, float]) -> None:
        if step == stop:
            raise Killed

    train(run, watch)
    return run


def test_training_lowers_the_error_and_leaves_the_vae_alone() -> None:
    images, vae = images_like(40, SHAPE, 1), small_vae(SHAPE)
    network = trained(None).model
    assert isinstance(network, Amortised)
    for name, weight in network.vae.state_dict().items():
        assert torch.equal(weight, vae.state_dict()[name]), f"{name} of the VAE was changed"
    before = float((LatentVAE(vae, steps=0)(images) - images).square().mean())
    fitted, corrected = (
        float((LatentVAE(network, solver="learned", steps=steps)(images) - images).square().mean()) for steps in (0, 1)
    )
    assert corrected < 0.98 * fitted < 0.98 * before


def test_an_interrupted_training_ends_with_the_same_weights(tmp_path: Path) -> None:
    whole = trained(tmp_path / "whole", epochs=2)
    with pytest.raises(Killed):
        trained(tmp_path / "parts", epochs=2, stop=5)
    again = trained(tmp_path / "parts", epochs=2)
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, again.model.state_dict()[name]), name


def test_a_recipe_is_built_around_the_bundled_vae() -> None:
    made = recipe("cifar10-vae-learned")
    network, vae = made.build(pictures(2)), models.load("cifar10-vae")
    assert isinstance(network, Amortised)
    for part in (network.vae, network.fitted):
        expected = vae if part is network.vae else vae.encoder
        for name, weight in part.state_dict().items():
            assert torch.equal(weight, expected.state_dict()[name])  # type: ignore[union-attr, operator]
    assert {name.split(".")[0] for name, weight in network.named_parameters() if weight.requires_grad} == {
        "fitted", "corrections",
    }  # fmt: skip
    assert made.needs == ("cifar10-vae",)


def test_fit_trains_them_too(tmp_path: Path) -> None:
    classifier, images = LinearClassifier(SHAPE, 2), pictures(400)
    images = replace(images, labels=classifier(images.images).argmax(1))
    with pytest.warns(AluWarning, match="Harmless changes cost"):  # one epoch teaches a VAE nothing
        defense = alu.fit(
            classifier, images, purifier="vae", solver="learned", rule="alu", false_alarm=0.05, epochs=1,
            checkpoint=tmp_path / "run", force=True,
        )  # fmt: skip
    purifier = defense.purifier
    assert isinstance(purifier, LatentVAE)
    assert (purifier.solver, purifier.steps) == ("learned", 1)
    assert (tmp_path / "run" / "learned" / "checkpoint.safetensors").exists()
    defense.save(tmp_path / "saved")
    again = alu.load(tmp_path / "saved", classifier=defense.classifier)
    torch.testing.assert_close(again(images.images[:3]), defense(images.images[:3]))


def test_what_would_take_too_long_is_refused_before_the_vae_is_trained(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match='Training learned steps on 16 x 16 images would take .* solver="adam"'):
        train_with_learned(
            pictures(60), pictures(20), epochs=200, max_minutes=1e-6, seed=0, device="cpu", folder=tmp_path / "run",
            replaces=False, watch=lambda *_: None,
        )  # fmt: skip
    assert not (tmp_path / "run").exists()


def test_a_solver_is_refused_where_nothing_is_trained() -> None:
    with pytest.raises(UsageError, match="There is no solver 'lerned'. Did you mean learned"):
        Plan(solver="lerned")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match='solver="learned" is for a VAE that is trained; blur trains none'):
        Plan(purifier="blur", solver="learned")
