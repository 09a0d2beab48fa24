"""Recipes of learned steps: an encoder and a correction for a VAE that stays as it is; and what `alu.fit` trains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from alu import data, models
from alu.errors import UsageError
from alu.models.amortised import Amortised
from alu.models.vae import VAE
from alu.progress import Watch, at_once
from alu.training.amortised import Amortising
from alu.training.batches import steps_per_epoch
from alu.training.loop import Run, train
from alu.training.recipes.base import Recipe, seeded
from alu.training.recipes.own import STEPS as USUAL_STEPS
from alu.training.recipes.own import make_room, padded, readable, seconds_per_step, small_vae, stride_of, train_vae
from alu.training.settings import Settings

STEPS = 1
"""Corrections: two narrower ones leave as much and cost more."""
BREADTH = 4 / 3
"""Channels of a correction's widest layers, as a share of the VAE's."""
SETTINGS = Settings(
    epochs=6, batch_size=64, optimizer="adam", lr=1e-3, warmup=0.1, augment="flip", average=0.998, clip=3.0
)


def around(vae: nn.Module) -> Amortised:
    """A network with learned steps, not trained yet, around a trained VAE."""
    assert isinstance(vae, VAE)
    breadth = 8 * max(1, round(BREADTH * vae.width / 8))
    made = models.amortised(vae.channels, vae.latent, vae.width, vae.stride, STEPS, breadth)
    assert isinstance(made, Amortised)
    return made.around(vae)


def around_bundled(name: str) -> Callable[[data.Dataset], nn.Module]:
    """A builder that puts a bundled VAE into a network with learned steps."""
    return lambda _: around(models.load(name))


def _learned(dataset: str, settings: Settings) -> Recipe:
    vae = f"{dataset}-vae"
    return Recipe(
        f"Learned steps for `{vae}`: an encoder fitted to its decoder and a correction, in place of the latent loop.",
        dataset,
        around_bundled(vae),
        Amortising,
        settings,
        "vae",
        (vae,),
    )


LEARNED: dict[str, Recipe] = {
    "cifar10-vae-learned": _learned("cifar10", SETTINGS),
    "cifar100-vae-learned": _learned("cifar100", replace(SETTINGS, epochs=15)),
    "tiny-imagenet-vae-learned": _learned("tiny-imagenet", replace(SETTINGS, epochs=12)),
}


def train_with_learned(
    images: data.Dataset,
    validation: data.Dataset,
    *,
    epochs: int | None,
    max_minutes: float,
    seed: int,
    device: str,
    folder: Path | None,
    replaces: bool,
    watch: Watch,
) -> nn.Module:
    """A VAE trained on clean images as by `train_vae`, then its learned steps for as many epochs; refused before both
    where the second training alone would take too long. It is kept in the folder "learned" of the first one's."""
    how: dict[str, Any] = {"epochs": epochs, "seed": seed, "device": device}
    stride = stride_of(images.shape)
    untrained = seeded(lambda: small_vae(images.shape[0], stride), seed)
    minutes = _minutes(_run(untrained, images, validation, folder=None, **how))
    if minutes > max_minutes:
        raise UsageError(
            f"Training learned steps on {images.shape[1]} x {images.shape[2]} images would take about "
            f"{readable(minutes)} minutes here, after the VAE's own training, more than the {max_minutes:g} allowed. "
            f'Give max_minutes={readable(minutes * 1.2)}, smaller pictures (size=), fewer epochs=, or solver="adam".'
        )
    common: dict[str, Any] = {"folder": folder, "max_minutes": max_minutes, "replaces": replaces, "watch": watch}
    vae = train_vae(images, validation, steps=0, **how, **common)
    run = _run(vae, images, validation, folder=None if folder is None else folder / "learned", **how)
    if replaces:
        make_room(run)
    about = f"Training learned steps (about {readable(minutes)} min)"
    train(run, lambda done, total, _: watch(about, done, total))
    return run.model


def _run(
    vae: nn.Module, images: data.Dataset, validation: data.Dataset, *, epochs: int | None, seed: int, device: str,
    folder: Path | None,
) -> Run:  # fmt: skip
    stride = stride_of(images.shape)
    images, validation = (padded(part, stride) for part in (images, validation))
    batch = min(len(images), at_once(images.shape, SETTINGS.batch_size))
    settings = replace(SETTINGS, batch_size=batch, seed=seed, augment="none")
    settings = replace(settings, epochs=epochs or max(1, round(USUAL_STEPS / steps_per_epoch(images, settings))))
    network = seeded(lambda: around(vae), seed)
    return Run(network, Amortising(), images, validation, settings, folder, device)


def _minutes(run: Run) -> float:
    return run.settings.epochs * steps_per_epoch(run.data, run.settings) * seconds_per_step(run) / 60
