"""Recipes for the user's own images: `alu train classifier --data FOLDER`, `alu train vae --data FOLDER`; and the VAE
that `alu.fit` trains on them, with its cost estimated first."""

from __future__ import annotations

import copy
import math
import shutil
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import nn

from alu import data, models
from alu.check import warn
from alu.errors import DataError, UsageError
from alu.models.vae import VAE
from alu.progress import Watch, at_once
from alu.purifiers import LatentVAE
from alu.storage import read_json
from alu.training.batches import batches, steps_per_epoch
from alu.training.checkpoint import differences, progress_of, total_steps
from alu.training.loop import Run, train
from alu.training.objectives import Autoencoding, Classification
from alu.training.recipes.base import Recipe, seeded
from alu.training.settings import Settings

NOTICEABLE = 0.1
"""Seconds for one answer from which on they are mentioned."""
STEPS = 2500
"""Optimiser steps unless epochs are given, few images or many: for a VAE about 6 minutes on two slow cores at 28
pixels."""
LARGE = 128 * 128
"""Pixels of a picture from which on a VAE has stride 8."""
VAE_SETTINGS = Settings(batch_size=128, optimizer="adam", lr=2e-3, warmup=0.1, average=0.995)


class OwnRecipe(Recipe):
    """A recipe without a data set: the length of the training and the batch follow from the images it is given."""

    def settings_for(self, images: data.Dataset) -> Settings:
        """About 2,500 steps, of at most 200 epochs, in batches that leave at least 8 to an epoch and fit memory."""
        most = min(self.settings.batch_size, at_once(images.shape, self.settings.batch_size))
        batch = max(2, min(most, len(images) // 8))  # batch normalisation needs two
        epochs = min(200, max(5, round(STEPS * batch / len(images))))
        return replace(self.settings, batch_size=batch, epochs=epochs)


def _network(images: data.Dataset) -> nn.Module:
    if len(images.classes) < 2:
        raise DataError(f"{images.name} has one class only, {images.classes[0]}; a classifier needs at least two.")
    if min(images.shape[1:]) < 8:
        raise DataError(
            f"A classifier needs images of at least 8 x 8 pixels; those of {images.name} are {images.shape[2]} x "
            f"{images.shape[1]}. Scale a folder of pictures: --size 32."
        )
    return models.resnet18(len(images.classes), images.shape[0], size=max(images.shape[1:]), width=16)


def _vae(images: data.Dataset) -> nn.Module:
    channels, height, width = images.shape
    stride = stride_of(images.shape)
    if height % stride or width % stride or min(height, width) < 8:
        near = max(8, min(height, width) // stride * stride)
        raise DataError(
            f"A VAE needs images whose height and width are multiples of {stride} and at least 8; those of "
            f"{images.name} are {width} x {height}. Scale a folder of pictures: --size {near}."
        )
    return small_vae(channels, stride)


def stride_of(shape: tuple[int, ...]) -> int:
    """8 for large pictures, where 4 would cost nearly three times as much with a code of the same size."""
    return 8 if shape[1] * shape[2] > LARGE else VAE.stride


def small_vae(channels: int, stride: int) -> nn.Module:
    """A VAE whose code is small enough to purify.

    A third as many code values as pixel values keeps answers and cannot copy a perturbation; a gray picture has few
    values to begin with, and with fewer than ten a place (of 4 x 4 pixels) clean logits move so much that attacks hide
    among them.
    """
    places = (stride // VAE.stride) ** 2
    return models.vae(channels, latent=places * max(10, round(16 * channels / 3)), width=64, stride=stride)


OWN: dict[str, Recipe] = {
    "classifier": OwnRecipe(
        "A classifier of your own images (--data): ResNet-18 of width 16, cheap to attack and to defend.",
        "",
        _network,
        partial(Classification, smoothing=0.1),
        Settings(batch_size=64, lr=0.05, weight_decay=1e-3, warmup=0.2, augment="crop-flip", average=0.99),
    ),
    "vae": OwnRecipe(
        "A VAE of your own images (--data), for `alu fit --purifier` and `alu.purifiers.LatentVAE`.",
        "",
        _vae,
        partial(Autoencoding, sigma=0.02),
        VAE_SETTINGS,
        "vae",
    ),
}


def train_vae(
    images: data.Dataset,
    validation: data.Dataset,
    *,
    epochs: int | None,
    max_minutes: float,
    steps: int,
    seed: int,
    device: str,
    folder: Path | None,
    replaces: bool,
    watch: Watch,
) -> nn.Module:
    """A VAE trained on clean images; refused beforehand where it would take too long, and what an answer with so many
    latent `steps` will take is said with it. An interrupted training goes on from `folder`; with `replaces`, a finished
    one of other settings that is kept there makes room for this one."""
    channels, height, width = images.shape
    if min(height, width) < 8:
        raise UsageError(
            f"A VAE needs images of at least 8 x 8 pixels; these are {width} x {height}. Use another size=."
        )
    stride = stride_of(images.shape)
    images, validation = (padded(part, stride) for part in (images, validation))
    settings = replace(VAE_SETTINGS, batch_size=min(len(images), at_once(images.shape, 128)), seed=seed)
    per_epoch = steps_per_epoch(images, settings)
    settings = replace(settings, epochs=epochs or max(1, round(STEPS / per_epoch)))
    network = seeded(lambda: small_vae(channels, stride), seed)
    run = Run(network, Autoencoding(sigma=0.02), images, validation, settings, folder, device)
    total = settings.epochs * per_epoch
    minutes = total * seconds_per_step(run) / 60
    answer = _seconds_per_answer(run, steps)
    then = f"; an answer with {steps} latent steps would then take {answer:.1f} s" if answer >= NOTICEABLE else ""
    if minutes > max_minutes:
        raise UsageError(
            f"Training a VAE on {height} x {width} images would take about {readable(minutes)} minutes here "
            f"({total} steps), more than the {max_minutes:g} allowed{then}. Give "
            f"max_minutes={readable(minutes * 1.2)}, "
            'smaller pictures (size=) or fewer epochs=; purifier="pca" takes seconds, but may notice few attacks.'
        )
    if replaces:
        make_room(run)
    later = f"; then {answer:.1f} s for a picture" if then else ""
    about = f"Training the VAE (about {readable(minutes)} min{later})"
    train(run, lambda done, total, _: watch(about, done, total))
    return network


def make_room(run: Run) -> None:
    """Remove a finished training of other settings; an interrupted one stays, and the loop names the difference."""
    if run.folder is None or not (checkpoint := run.folder / "checkpoint.safetensors").exists():
        return
    other = differences(checkpoint, run.configuration())
    if other and progress_of(checkpoint).step >= total_steps(read_json(run.folder / "run.json")):
        warn(f"The VAE in {run.folder} was trained with other settings ({', '.join(other)}) and is trained again.")
        shutil.rmtree(run.folder)


def readable(minutes: float) -> str:
    """Minutes as a person says them: whole ones, or tenths below 10; never 0, rounded up so that it suffices."""
    return f"{math.ceil(minutes)}" if minutes >= 10 else f"{math.ceil(minutes * 10) / 10:g}"


def padded(images: data.Dataset, stride: int) -> data.Dataset:
    """Images whose sides `stride` divides: the last row and column repeated, as LatentVAE does when it purifies."""
    if not any(side % stride for side in images.shape[1:]):
        return images
    down, right = (torch.arange(side + -side % stride).clamp(max=side - 1) for side in images.shape[1:])
    return replace(images, pixels=images.pixels[:, :, down[:, None], right])


def seconds_per_step(run: Run) -> float:
    """Time of one optimiser step, measured on a throw-away copy and on as few images as give a fair figure."""
    model = copy.deepcopy(run.model).to(run.device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    size = run.settings.batch_size
    few = max(1, min(size, 128 * 32 * 32 // (run.data.shape[1] * run.data.shape[2])))
    batch = next(iter(batches(run.data, replace(run.settings, batch_size=few), 0)))
    batch.images = batch.images.to(run.device)
    times: list[float] = []
    while len(times) < 3 and sum(times) < 5:
        start = time.monotonic()
        loss, _parts = run.objective.loss(model, batch)
        torch.autograd.grad(loss, [weight for weight in model.parameters() if weight.requires_grad])
        times.append(time.monotonic() - start)
    return min(times) * size / few


def _seconds_per_answer(run: Run, steps: int) -> float:
    """Time in which one picture is purified with so many latent steps, from a few of them."""
    purifier = LatentVAE(run.model, steps=min(steps, 2))
    image = data.as_images(run.data.pixels[:1]).to(run.device)
    purifier.to(run.device)
    start = time.monotonic()
    purifier(image)
    return (time.monotonic() - start) * (steps + 1) / (purifier.steps + 1)
