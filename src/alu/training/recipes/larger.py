"""CIFAR-100 and tiny-ImageNet models: made for subsets of 200 and 100 images a class, so they start from what
CIFAR-10 taught and are regularised hard."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from alu import data, models
from alu.training.adversarial import AdversarialTraining, Friendly, Gairat, Mart, Trades
from alu.training.objectives import Autoencoding, Classification
from alu.training.purified import Unified
from alu.training.recipes.base import Recipe, bundled
from alu.training.recipes.cifar10 import tuned
from alu.training.settings import Settings


def _from(name: str) -> Callable[[data.Dataset], nn.Module]:
    """A builder that takes a bundled CIFAR-10 network and gives it a new last layer, for as many classes as there are.

    At 64 pixels its stem has stride 2, so that it costs what it costs at 32.
    """

    def build(images: data.Dataset) -> nn.Module:
        known = models.load(name)
        facts = {**known.architecture, "num_classes": len(images.classes), "size": max(images.shape[1:])}  # type: ignore[dict-item]
        made = models.rebuild(facts)
        kept = {key: value for key, value in known.state_dict().items() if not key.startswith("linear.")}
        made.load_state_dict(kept, strict=False)
        return made

    return build


def _standard(dataset: str) -> Recipe:
    settings = Settings(
        epochs=24, batch_size=64, lr=0.05, weight_decay=1e-3, warmup=0.2, augment="crop-flip-cutout"
    )  # fmt: skip
    start = "cifar10-standard"
    return Recipe(dataset, _from(start), lambda: Classification(smoothing=0.1), settings, needs=(start,))


def _unified(dataset: str) -> Recipe:
    settings = Settings(
        epochs=4, batch_size=64, lr=0.03, weight_decay=1e-3, warmup=0.1, augment="crop-flip", average=0.998
    )  # fmt: skip
    standard, vae = f"{dataset}-standard", f"{dataset}-vae"
    return Recipe(
        dataset, bundled(standard), lambda: Unified(models.load(vae), smoothing=0.1), settings, needs=(standard, vae)
    )


def _at(dataset: str) -> Recipe:
    settings = Settings(epochs=5, batch_size=64, lr=0.05, weight_decay=1e-3, warmup=0.2, augment="crop-flip")
    start = "cifar10-at"
    return Recipe(
        dataset,
        _from(start),
        lambda: AdversarialTraining(steps=2, step_size=5 / 255),
        settings,
        needs=(start,),
    )


def cifar100_standard() -> Recipe:
    """A clean CIFAR-100 classifier, tuned from `cifar10-standard`; the paper trains a ResNet-50 from scratch."""
    return _standard("cifar100")


def cifar100_vae() -> Recipe:
    """A VAE for CIFAR-100, on from `cifar10-vae`; the paper's is not known."""
    settings = Settings(
        epochs=8, batch_size=128, optimizer="adam", lr=1e-3, warmup=0.1, augment="flip", average=0.999
    )  # fmt: skip
    start = "cifar10-vae"
    return Recipe("cifar100", bundled(start), lambda: Autoencoding(sigma=0.02), settings, "vae", (start,))


def cifar100_unified() -> Recipe:
    """Unified ALU: `cifar100-standard`, trained on for 4 epochs on the outputs of `cifar100-vae`."""
    return _unified("cifar100")


def cifar100_at() -> Recipe:
    """Adversarial training on CIFAR-100, on from `cifar10-at`: PGD-2 in place of the paper's PGD-10."""
    return _at("cifar100")


def tiny_imagenet_standard() -> Recipe:
    """A clean tiny-ImageNet classifier, tuned from `cifar10-standard` with a stem of stride 2, 35 M multiply-adds."""
    return _standard("tiny-imagenet")


def tiny_imagenet_vae() -> Recipe:
    """A VAE for tiny-ImageNet: 16x16x16 code; narrower than `cifar10-vae`, its decoder costs 45 M multiply-adds."""
    settings = Settings(
        epochs=8, batch_size=64, optimizer="adam", lr=2e-3, warmup=0.1, augment="flip", average=0.999
    )  # fmt: skip
    return Recipe("tiny-imagenet", lambda _: models.vae(width=64), lambda: Autoencoding(sigma=0.02), settings, "vae")


def tiny_imagenet_unified() -> Recipe:
    """Unified ALU: `tiny-imagenet-standard`, trained on for 4 epochs on the outputs of `tiny-imagenet-vae`."""
    return _unified("tiny-imagenet")


def tiny_imagenet_at() -> Recipe:
    """Adversarial training on tiny-ImageNet, 16 epochs on from `tiny-imagenet-standard`: PGD-2 for the paper's PGD-10.

    Five epochs on from `cifar10-at` gave 13 % clean: with 90 images a class, features of these classes must come first.
    """
    settings = Settings(
        epochs=16, batch_size=64, lr=0.03, weight_decay=1e-3, warmup=0.2, augment="crop-flip", average=0.998
    )  # fmt: skip
    start = "tiny-imagenet-standard"
    objective = AdversarialTraining(steps=2, step_size=5 / 255)
    return Recipe("tiny-imagenet", bundled(start), lambda: objective, settings, needs=(start,))


def cifar100_trades() -> Recipe:
    """TRADES with beta 6 and PGD-5, two epochs on from `cifar100-at`."""
    return tuned(Trades(beta=6.0, steps=5), "cifar100")


def cifar100_mart() -> Recipe:
    """MART with weight 5 and PGD-5, two epochs on from `cifar100-at`."""
    return tuned(Mart(weight=5.0, steps=5), "cifar100")


def cifar100_fat() -> Recipe:
    """FAT, one to three steps after the first mistake of PGD-5, two epochs on from `cifar100-at`."""
    return tuned(Friendly(earliest=1, patience=3, steps=5, step_size=3 / 255), "cifar100")


def cifar100_gairat() -> Recipe:
    """GAIRAT with PGD-5, two epochs on from `cifar100-at`."""
    return tuned(Gairat(steps=5, step_size=3 / 255, warmup=0.0), "cifar100")


def tiny_imagenet_trades() -> Recipe:
    """TRADES with beta 6 and PGD-5, two epochs on from `tiny-imagenet-at`."""
    return tuned(Trades(beta=6.0, steps=5), "tiny-imagenet")


def tiny_imagenet_mart() -> Recipe:
    """MART with weight 5 and PGD-5, two epochs on from `tiny-imagenet-at`."""
    return tuned(Mart(weight=5.0, steps=5), "tiny-imagenet")


def tiny_imagenet_fat() -> Recipe:
    """FAT, one to three steps after the first mistake of PGD-5, two epochs on from `tiny-imagenet-at`."""
    return tuned(Friendly(earliest=1, patience=3, steps=5, step_size=3 / 255), "tiny-imagenet")


def tiny_imagenet_gairat() -> Recipe:
    """GAIRAT with PGD-5, two epochs on from `tiny-imagenet-at`."""
    return tuned(Gairat(steps=5, step_size=3 / 255, warmup=0.0), "tiny-imagenet")
