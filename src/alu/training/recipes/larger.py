"""The bundled CIFAR-100 and tiny-ImageNet models: for subsets of 200 and 100 images a class, so regularised hard."""

from __future__ import annotations

from alu import data, models
from alu.models.resnet import ResNet
from alu.training.adversarial import AdversarialTraining
from alu.training.objectives import Autoencoding, Classification
from alu.training.purified import Unified
from alu.training.recipes.base import Recipe, bundled
from alu.training.settings import Settings


def _network(images: data.Dataset) -> ResNet:
    """ResNet-18 of width 18: 44 M multiply-adds at 32 pixels, and at 64 too, because its stem then has stride 2."""
    return models.resnet18(len(images.classes), size=max(images.shape[1:]), width=18)


def _standard(dataset: str) -> Recipe:
    settings = Settings(
        epochs=40, batch_size=64, lr=0.1, weight_decay=1e-3, warmup=0.2, augment="crop-flip-cutout"
    )  # fmt: skip
    return Recipe(dataset, _network, lambda: Classification(smoothing=0.1), settings)


def _unified(dataset: str) -> Recipe:
    settings = Settings(
        epochs=8, batch_size=64, lr=0.03, weight_decay=1e-3, warmup=0.1, augment="crop-flip", average=0.998
    )  # fmt: skip
    standard, vae = f"{dataset}-standard", f"{dataset}-vae"
    return Recipe(
        dataset, bundled(standard), lambda: Unified(models.load(vae), smoothing=0.1), settings, needs=(standard, vae)
    )


def _fast_at(dataset: str) -> Recipe:
    settings = Settings(epochs=25, batch_size=64, lr=0.08, weight_decay=1e-3, warmup=0.3, augment="crop-flip")
    return Recipe(dataset, _network, lambda: AdversarialTraining(steps=1, step_size=10 / 255), settings)


def cifar100_standard() -> Recipe:
    """A clean CIFAR-100 classifier: ResNet-18 of width 18, 44 M multiply-adds; the paper has a ResNet-50."""
    return _standard("cifar100")


def cifar100_vae() -> Recipe:
    """A VAE for CIFAR-100 of the shape of `cifar10-vae`; the paper's is not known."""
    settings = Settings(
        epochs=30, batch_size=128, optimizer="adam", lr=2e-3, warmup=0.1, augment="flip", average=0.999
    )  # fmt: skip
    return Recipe("cifar100", lambda _: models.vae(), lambda: Autoencoding(sigma=0.02), settings, "vae")


def cifar100_unified() -> Recipe:
    """Unified ALU: `cifar100-standard`, trained on for 8 epochs on the outputs of `cifar100-vae`."""
    return _unified("cifar100")


def cifar100_at() -> Recipe:
    """Fast adversarial training on CIFAR-100: one step from a random start, in place of the paper's PGD-10."""
    return _fast_at("cifar100")


def tiny_imagenet_standard() -> Recipe:
    """A clean tiny-ImageNet classifier: ResNet-18 of width 18 with a stem of stride 2, 44 M multiply-adds."""
    return _standard("tiny-imagenet")


def tiny_imagenet_vae() -> Recipe:
    """A VAE for tiny-ImageNet: 16x16x16 code; narrower than `cifar10-vae`, its decoder costs 45 M multiply-adds."""
    settings = Settings(
        epochs=14, batch_size=64, optimizer="adam", lr=2e-3, warmup=0.1, augment="flip", average=0.999
    )  # fmt: skip
    return Recipe("tiny-imagenet", lambda _: models.vae(width=64), lambda: Autoencoding(sigma=0.02), settings, "vae")


def tiny_imagenet_unified() -> Recipe:
    """Unified ALU: `tiny-imagenet-standard`, trained on for 8 epochs on the outputs of `tiny-imagenet-vae`."""
    return _unified("tiny-imagenet")


def tiny_imagenet_at() -> Recipe:
    """Fast adversarial training on tiny-ImageNet: one step from a random start, in place of the paper's PGD-10."""
    return _fast_at("tiny-imagenet")
