"""Recipes: they can be listed and built, cost what they promise, and say what they lack in one sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from alu import data, models
from alu.errors import DataError, StorageError, UsageError
from alu.models import cards
from alu.models.deep_vae import CONVERGING, DeepVAE
from alu.storage import read_json, read_tensors, write_tensors
from alu.training.adversarial import AdversarialTraining
from alu.training.loop import Run, train
from alu.training.objectives import Autoencoding, Classification
from alu.training.purified import Unified
from alu.training.recipes import RECIPES, recipe, seeded
from alu.training.settings import Settings
from tests.toys import Toy, toy_data

ZOO = [name for name in RECIPES if "paper" not in name and name not in ("classifier", "vae")]
SHAPES = {"cifar10": (32, 10), "cifar100": (32, 100), "tiny-imagenet": (64, 200)}


def no_images(dataset: str) -> data.Dataset:
    side, classes = SHAPES[dataset]
    pixels = torch.zeros((0, 3, side, side), dtype=torch.uint8)
    return data.Dataset(pixels, torch.zeros(0, dtype=torch.int64), tuple(map(str, range(classes))), dataset)


def built(name: str) -> nn.Module:
    """A recipe's network, or that of the recipe it starts from."""
    made = recipe(name)
    starts_elsewhere = made.build.__qualname__.startswith("bundled.") or not set(made.needs) <= set(models.names())
    return built(made.needs[0]) if starts_elsewhere else made.build(no_images(made.dataset))


def multiply_adds(model: nn.Module, images: Tensor) -> float:
    """Millions of multiply-adds of one forward pass of convolutions and linear layers."""
    # Not by hooks: in eval mode a ResNet computes its convolutions without calling the layers.
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model.eval().requires_grad_(False)(images)
    return counter.get_total_flops() / 2e6


class Decoder(nn.Module):
    def __init__(self, vae: DeepVAE) -> None:
        super().__init__()
        self.vae = vae

    def forward(self, code: Tensor) -> Tensor:
        return self.vae.decode(code)


def deep_parts(vae: DeepVAE, images: Tensor) -> list[tuple[nn.Module, Tensor]]:
    """Encoder and decoder, each with what it reads."""
    return [(vae.encoder, images), (Decoder(vae), torch.zeros(1, vae.code))]


@pytest.mark.parametrize("name", ZOO)
def test_networks_are_cheap(name: str) -> None:
    made = recipe(name)
    # Until what it starts from is bundled, the cost is that of the start itself.
    known = set(made.needs) <= set(models.names())
    side, classes = SHAPES[made.dataset if known else recipe(made.needs[0]).dataset]
    model = built(name)
    images = torch.zeros((1, 3, side, side))
    if name.endswith("-learned"):  # one pass through the encoder, the correction and two through the decoder
        assert isinstance(model, models.amortised().__class__)
        assert multiply_adds(model, images) <= (130 if side == 32 else 240)
    elif name == "cifar10-vae-deep":  # a decoder with no room, and the encoder costs more than it
        assert isinstance(model, DeepVAE)
        encoder, decoder = (multiply_adds(part, given) for part, given in deep_parts(model, images))
        assert decoder <= 6
        assert 15 <= encoder <= 45
    elif made.task == "vae":
        assert isinstance(model, models.vae().__class__)
        cost = multiply_adds(model.decoder, model.encode(images)[0])
        assert 10 <= cost <= (45 if side == 32 else 46)
    elif made.task in ("denoiser", "score"):
        assert 20 <= multiply_adds(model, images) <= 70
    elif made.task == "energy":  # hundreds of steps and their gradients are taken
        assert 5 <= multiply_adds(model, images) <= 20
    elif made.task == "contrastive":
        assert isinstance(model, models.contrastive().__class__)
        assert multiply_adds(model, images) <= multiply_adds(model.backbone, images) + 1
    elif name.endswith("asymmetric"):
        assert isinstance(model, models.asymmetric().__class__)
        assert 20 <= multiply_adds(model.head, model.inner(model.encode(images)[0])) <= 45
    else:
        assert 30 <= multiply_adds(model, images) <= 60
        assert model.linear.out_features == classes  # type: ignore[union-attr]


def test_what_cifar10_taught_is_kept_for_more_classes() -> None:
    known = models.load("cifar10-standard")
    made = recipe("tiny-imagenet-standard").build(no_images("tiny-imagenet"))
    assert made.linear.weight.shape == (200, known.linear.in_features)  # type: ignore[union-attr]
    assert made.conv1.stride == (2, 2)  # type: ignore[union-attr]
    kept = made.state_dict()
    assert {name for name, value in known.state_dict().items() if not torch.equal(value, kept[name])} == {
        "linear.weight", "linear.bias",
    }  # fmt: skip


def test_the_zoo_stays_small() -> None:
    folder = Path(models.__file__).parent / "weights"
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 60e6


@pytest.mark.parametrize("name", list(RECIPES))
def test_every_recipe_says_what_it_trains(name: str) -> None:
    made = RECIPES[name]
    assert made.task in ("classifier", "vae", "denoiser", "score", "energy", "contrastive")
    assert made.about.endswith(".")
    assert made.dataset in (*SHAPES, "")


def test_the_papers_schedule() -> None:
    settings = recipe("cifar10-paper-standard").settings
    rates = [settings.rate(0, 1, epoch) for epoch in (0, 99, 100, 119, 120, 139)]
    assert rates == pytest.approx([1e-3, 1e-3, 2e-4, 2e-4, 4e-5, 4e-5])
    vae = recipe("cifar10-paper-vae").settings
    assert [vae.rate(0, 1, epoch) for epoch in (79, 80, 100)] == pytest.approx([1e-3, 2e-4, 4e-5])


def test_a_missing_start_model_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cards, "WEIGHTS", tmp_path)
    made = recipe("cifar10-trades")
    with pytest.raises(UsageError, match="cifar10-trades starts from the bundled model cifar10-at, which is not there"):
        made.run(None)


def test_unknown_names_offer_the_nearest() -> None:
    with pytest.raises(UsageError, match="Did you mean cifar10-vae"):
        recipe("cifar10-va")
    with pytest.raises(UsageError, match="no setting 'epoch'. Did you mean epochs"):
        recipe("cifar10-vae").run(None, epoch=3)


def small_images(count: int, classes: int = 2, side: int = 16) -> data.Dataset:
    labels = torch.arange(count) % classes
    names = tuple(f"class {label}" for label in range(classes))
    return data.Dataset(torch.zeros((count, 3, side, side), dtype=torch.uint8), labels, names, "small")


@pytest.mark.parametrize("count", [10, 100, 5_000, 50_000])
def test_own_recipes_fit_the_number_of_images(count: int) -> None:
    for name in ("classifier", "vae"):
        settings = recipe(name).settings_for(small_images(count, side=8))
        steps = settings.epochs * (count // settings.batch_size)
        assert 2 <= settings.batch_size <= max(2, count // 8)
        assert 5 <= settings.epochs <= 200
        assert steps <= 2_700 or settings.epochs == 5
        assert steps >= 2_000 or settings.epochs == 200


def test_own_recipes_build_for_the_images_they_get() -> None:
    classifier, vae = recipe("classifier"), recipe("vae")
    assert classifier.build(small_images(8, classes=3)).linear.out_features == 3  # type: ignore[union-attr]
    assert isinstance(classifier.objective(), Classification)
    assert isinstance(vae.objective(), Autoencoding)
    assert vae.build(small_images(8)).channels == 3
    with pytest.raises(DataError, match="one class only"):
        classifier.build(small_images(8, classes=1))
    with pytest.raises(DataError, match="18 x 18. Scale a folder of pictures: --size 16"):
        vae.build(small_images(8, side=18))


def test_the_deep_vae_starts_from_principal_directions_and_keeps_them(tmp_path: Path) -> None:
    made = recipe("cifar10-vae-deep")
    images = data.sample("calibration").take(range(600))
    network = seeded(lambda: made.build(images), 0)
    assert isinstance(network, DeepVAE)
    directions = network.linear.weight.detach().clone()
    torch.testing.assert_close(directions.T @ directions, torch.eye(network.code), atol=1e-4, rtol=0)
    settings = Settings(epochs=3, batch_size=30, optimizer="adam", lr=2e-3)
    run = Run(network, made.objective(), images, images.take(range(50)), settings, tmp_path)
    before = made.objective().measure(network.eval(), images.images[:50], images.labels[:50])["squared_error"].mean()
    after = train(run)["squared_error"]
    assert after < 0.8 * before, "the encoder learns"
    assert torch.equal(network.linear.weight, directions)
    assert network.refine is not None
    assert network.refine[-2].weight.any(), "and so does the correction"  # type: ignore[union-attr, operator]
    bundled = made.save(run, "alu train cifar10-vae-deep", {"squared_error": after})
    unified = Unified(models.load_file(bundled), steps=4, stepped=0.5, latent=CONVERGING, measured_on=20)
    settings = Settings(epochs=1, batch_size=50, lr=0.05)
    second = Run(models.load("cifar10-standard"), unified, images, images.take(range(20)), settings)
    assert set(train(second)) == {"accuracy", "accuracy_after_steps"}


def test_own_images_and_known_data_sets_are_not_mixed_up() -> None:
    with pytest.raises(UsageError, match="--data FOLDER"):
        recipe("classifier").run(None)
    with pytest.raises(UsageError, match="trains on cifar10. With --data"):
        recipe("cifar10-standard").run(None, images="somewhere")


def pictures(path: Path) -> Path:
    """Images of two classes in a file."""
    labels = np.arange(120) % 2
    images = np.random.RandomState(0).randint(0, 120, (120, 3, 16, 16)) + 120 * labels[:, None, None, None]
    np.savez(path.with_suffix(".npz"), images=images.astype(np.uint8), labels=labels)
    return path.with_suffix(".npz")


def test_a_training_begins_with_the_weights_of_another(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "pictures")
    first = recipe("classifier").run(tmp_path / "first", images=folder, epochs=1)
    train(first)
    run = recipe("classifier").run(tmp_path / "second", images=folder, start=tmp_path / "first", epochs=1, lr=1e-9)
    begun = read_tensors(tmp_path / "first" / "best.safetensors")
    assert all(torch.equal(value, begun[name]) for name, value in run.model.state_dict().items())
    assert run.configuration()["start"].startswith("first ")
    assert "start" not in first.configuration(), "runs from before there was a start go on as they were"
    train(run)
    with pytest.raises(StorageError, match="belongs to another run: start was"):
        train(recipe("classifier").run(tmp_path / "second", images=folder, epochs=1, lr=1e-9))


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    folder, file = pictures(tmp_path / "pictures"), tmp_path / "other.safetensors"
    write_tensors(file, {"linear.bias": torch.zeros(7)})
    with pytest.raises(UsageError, match=r"does not hold a network that the recipe classifier builds: .* there and"):
        recipe("classifier").run(None, images=folder, start=file)
    with pytest.raises(StorageError, match="Cannot read"):
        recipe("classifier").run(None, images=folder, start=tmp_path / "nothing.safetensors")


def test_a_second_part_asks_for_the_first() -> None:
    with pytest.raises(UsageError, match="is fine-tuned from a run of cifar10-at-first: alu train cifar10-at-first"):
        recipe("cifar10-at").run(None)


def test_the_number_of_held_out_images_is_the_one_that_was_measured_on(tmp_path: Path) -> None:
    model = seeded(lambda: models.resnet18(5, width=8), 0)
    run = Run(model, AdversarialTraining(measured_on=3), toy_data(6), toy_data(5), Settings(epochs=1), tmp_path)
    path = recipe("cifar10-at").save(run, "alu train x", {"accuracy": 0.5})
    card = read_json(path.with_suffix(".json"))
    assert card["figures"]["n"] == 3


def test_few_and_tiny_pictures() -> None:
    own = recipe("classifier")
    assert own.settings_for(toy_data(14, Toy())).batch_size == 2  # type: ignore[attr-defined]
    tiny = data.Dataset(torch.rand(20, 3, 4, 4), torch.arange(20) % 2, ("a", "b"), "tiny")
    with pytest.raises(DataError, match="at least 8 x 8 pixels; those of tiny are 4 x 4"):
        own.build(tiny)  # type: ignore[operator]
