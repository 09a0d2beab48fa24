"""Recipes: Python functions that return a ready run; `alu train RECIPE --set key=value` changes their settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from alu import data, models
from alu.errors import UsageError, nearest
from alu.rng import derived_seed
from alu.training.adversarial import AdversarialTraining
from alu.training.loop import Run
from alu.training.objectives import Autoencoding, Classification, Objective
from alu.training.purified import Unified
from alu.training.settings import Settings


@dataclass(frozen=True)
class Recipe:
    """What to build and how to train it, before any data is read."""

    dataset: str
    build: Callable[[], nn.Module]
    objective: Objective
    settings: Settings

    def run(self, folder: Path | None, device: str = "cpu", root: Path | None = None, **changes: Any) -> Run:
        """Read the data and make the network; `changes` replace settings by name."""
        unknown = [key for key in changes if key not in Settings.__dataclass_fields__]
        if unknown:
            known = list(Settings.__dataclass_fields__)
            raise UsageError(f"A recipe has no setting {unknown[0]!r}. {nearest(unknown[0], known)}")
        settings = replace(self.settings, **changes)
        return Run(
            seeded(self.build, settings.seed),
            self.objective,
            data.open_dataset(self.dataset, "train", root=root),
            data.open_dataset(self.dataset, "validation", root=root),
            settings,
            folder,
            device,
        )


def seeded(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    """A network whose initial weights depend on the seed alone; the global random state is put back."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(seed, "initial weights"))
        return build()


def cifar10_vae() -> Recipe:
    """The bundled VAE for CIFAR-10: 8x8x16 code, decoder of 25 M multiply-adds."""
    settings = Settings(
        epochs=14,
        batch_size=128,
        optimizer="adam",
        lr=2e-3,
        schedule="one-cycle",
        warmup=0.1,
        augment="flip",
        average=0.999,
    )
    return Recipe("cifar10", models.vae, Autoencoding(sigma=0.02), settings)


def cifar10_standard() -> Recipe:
    """A clean CIFAR-10 classifier that is cheap to attack: ResNet-18 of width 16, 35 M multiply-adds."""
    settings = Settings(
        epochs=40,
        batch_size=128,
        optimizer="sgd",
        lr=0.2,
        weight_decay=2e-4,
        schedule="one-cycle",
        warmup=0.2,
        augment="crop-flip",
    )
    return Recipe("cifar10", partial(models.resnet18, width=16), Classification(), settings)


def cifar10_unified() -> Recipe:
    """Unified ALU: `cifar10-standard`, trained on for a few epochs on the outputs of `cifar10-vae`.

    The paper trains from scratch; starting from the clean classifier needs a quarter of the epochs.
    """
    settings = Settings(
        epochs=6,
        batch_size=128,
        optimizer="sgd",
        lr=0.05,
        weight_decay=5e-4,
        warmup=0.1,
        augment="crop-flip",
        average=0.998,
    )
    return Recipe("cifar10", partial(models.load, "cifar10-standard"), Unified(models.load("cifar10-vae")), settings)


def cifar10_at() -> Recipe:
    """Fast adversarial training: one step of 1.25 eps from a random start, in place of the paper's PGD-10."""
    settings = Settings(
        epochs=15,
        batch_size=128,
        optimizer="sgd",
        lr=0.15,
        weight_decay=5e-4,
        schedule="one-cycle",
        warmup=0.3,
        augment="crop-flip",
    )
    objective = AdversarialTraining(steps=1, step_size=10 / 255)
    return Recipe("cifar10", partial(models.resnet18, width=18), objective, settings)


RECIPES: dict[str, Callable[[], Recipe]] = {
    "cifar10-vae": cifar10_vae,
    "cifar10-standard": cifar10_standard,
    "cifar10-unified": cifar10_unified,
    "cifar10-at": cifar10_at,
}


def recipe(name: str) -> Recipe:
    """The recipe of this name."""
    if name not in RECIPES:
        raise UsageError(f"There is no recipe {name!r}. {nearest(name, list(RECIPES))}")
    return RECIPES[name]()
