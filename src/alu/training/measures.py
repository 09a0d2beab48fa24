"""The figures on a bundled model's card: one function for each kind of model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from alu import data, models
from alu.attacks import PGD, AutoAttack
from alu.data.dataset import Dataset
from alu.defense import batched_logits
from alu.models.asymmetric import Asymmetric
from alu.progress import at_once
from alu.purifiers import InnerVAE, LatentVAE, Purifier, UNet
from alu.stats import Share

ATTACKED = 500
"""Test images under attack."""
HARD = 200
"""Test images under AutoAttack, which takes an hour for 1,000 of them on two cores."""


@dataclass(frozen=True)
class Measured:
    """A model to be published: its name, its data set's name, and the images it is measured on."""

    name: str
    dataset: str
    test: Dataset

    def figure(self, right: Tensor) -> dict[str, Any]:
        """A share with its number of images and interval, as plain values."""
        share = Share(int(right.sum()), len(right))
        low, high = share.interval
        on = f"{self.dataset} test" if len(right) == len(self.test) else f"{share.n:,} of {self.dataset} test"
        bounds = [round(100 * low, 2), round(100 * high, 2)]
        return {"percent": round(100 * share.value, 2), "interval": bounds, "n": share.n, "on": on}

    def some(self, n: int) -> Dataset:
        """At most `n` test images, drawn by seed 0."""
        return self.test.draw(min(n, len(self.test)))

    @property
    def stepped(self) -> Dataset:
        """The test images that are optimised for 20 latent steps: all for the two that are promised so, else 2,000."""
        return self.test if self.name in ("cifar10-vae", "cifar10-unified") else self.some(2_000)

    @property
    def standard(self) -> str:
        """The clean classifier of the same data set."""
        return f"{self.dataset}-standard"


def _right(classifier: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    return batched_logits(classifier, images).argmax(1) == labels


def _through(purifier: Purifier, images: Tensor) -> Tensor:
    portion = at_once(tuple(images.shape[1:]), 100)
    with torch.no_grad():
        return torch.cat([purifier(part) for part in torch.split(images, portion)])


def _attacked(model: nn.Module, about: Measured, steps: Sequence[int]) -> dict[str, Any]:
    few = about.some(ATTACKED)
    found = {}
    for count in steps:
        images = PGD(eps=8 / 255, steps=count)(model, few.images, few.labels)
        found[f"PGD-{count}, 8/255"] = about.figure(_right(model, images, few.labels))
    return found


def plain_classifier(model: nn.Module, about: Measured) -> dict[str, Any]:
    """Clean accuracy on the whole test set, and under PGD-20."""
    clean = about.figure(_right(model, about.test.images, about.test.labels))
    return {"clean accuracy": clean, **_attacked(model, about, (20,))}


def robust_classifier(model: nn.Module, about: Measured) -> dict[str, Any]:
    """The same, PGD-50 beside PGD-10, which are far apart where a training has overfitted catastrophically, and
    AutoAttack: for the robust classifier that all others are compared with or tuned from."""
    few = about.some(HARD)
    images = AutoAttack(eps=8 / 255)(model, few.images, few.labels)
    standing = _right(model, images, few.labels) & _right(model, few.images, few.labels)
    found = {**plain_classifier(model, about), **_attacked(model, about, (10, 50))}
    return {**found, "AutoAttack, 8/255": about.figure(standing)}


def through_vae(model: nn.Module, about: Measured) -> dict[str, Any]:
    """Clean accuracy as it is deployed, through the VAE, without latent steps and after 20; and on bare images."""
    name = f"{about.dataset}-vae"
    found: dict[str, Any] = {}
    for steps, some in ((0, about.test), (20, about.stepped)):
        made = InnerVAE(model, steps=steps) if isinstance(model, Asymmetric) else LatentVAE(name, steps=steps)
        right = _right(model, _through(made, some.images), some.labels)
        found[f"clean accuracy through {name}, {steps} steps"] = about.figure(right)
    if not isinstance(model, Asymmetric):  # which reads nothing but the VAE
        found["clean accuracy on bare images"] = about.figure(_right(model, about.test.images, about.test.labels))
    return {**found, **_attacked(model, about, (20,))}


def denoiser(model: nn.Module, about: Measured) -> dict[str, Any]:
    """The clean classifier's accuracy on denoised images: clean, and under PGD-20 that does not know the denoiser."""
    classifier, purifier, few = models.load(about.standard), UNet(model), about.some(ATTACKED)
    attacked = PGD(eps=8 / 255, steps=20)(classifier, few.images, few.labels)
    clean = _right(classifier, _through(purifier, about.test.images), about.test.labels)
    return {
        f"{about.standard} after denoising, clean": about.figure(clean),
        f"{about.standard} after denoising, oblivious PGD-20, 8/255": about.figure(
            _right(classifier, _through(purifier, attacked), few.labels)
        ),
        f"{about.standard} alone, PGD-20, 8/255": about.figure(_right(classifier, attacked, few.labels)),
    }


def vae(model: nn.Module, about: Measured) -> dict[str, Any]:
    """Reconstruction error and, where the clean classifier is there, how many of its answers survive."""
    classifier = models.load(about.standard) if about.standard in models.names() else None
    found: dict[str, Any] = {}
    for steps, some in ((0, about.test), (20, about.stepped)):
        purified = _through(LatentVAE(model, steps=steps), some.images)
        if classifier is not None:
            right = _right(classifier, purified, some.labels)
            found[f"{about.standard} after {steps} steps"] = about.figure(right)
        found[f"rmse after {steps} steps"] = round(float((purified - some.images).square().mean().sqrt()), 5)
    return found


def measure_pca(model: nn.Module) -> dict[str, Any]:
    """How many answers of `cifar10-standard` survive the projection."""
    about = Measured("cifar10-pca", "cifar10", data.cifar10("test"))
    with torch.no_grad():
        projected = model(about.test.images).clamp(0, 1)
    right = _right(models.load(about.standard), projected, about.test.labels)
    return {f"{about.standard} after projection": about.figure(right)}
