"""The VAE that `alu fit` trains on somebody's clean images, with its cost estimated first."""

from __future__ import annotations

import copy
import math
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from alu import models
from alu.check import warn
from alu.data.dataset import Dataset
from alu.errors import UsageError
from alu.models.vae import VAE
from alu.progress import Watch, at_once
from alu.storage import read_json
from alu.training.batches import batches, steps_per_epoch
from alu.training.checkpoint import differences, progress_of, total_steps
from alu.training.loop import Run, train
from alu.training.objectives import Autoencoding
from alu.training.recipes import seeded
from alu.training.settings import Settings

"""Called with what is being done, how much is done, and how much there is."""

TRAINING_STEPS = 2500
"""Optimiser steps unless epochs are given: about 6 minutes on two slow cores at 28 pixels."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How long to train, where, and what to keep: an interrupted training goes on from `checkpoint`. With `replaces`, a
    finished one of other settings that is kept there makes room for this one."""

    epochs: int | None = None
    max_minutes: float = 120.0
    seed: int = 0
    device: str = "cpu"
    checkpoint: Path | None = None
    replaces: bool = False


def trained_vae(parts: dict[str, Dataset], plan: Budget, watch: Watch) -> nn.Module:
    """A VAE trained on the clean training images; refused beforehand where it would take too long."""
    channels, height, width = parts["train"].shape
    if min(height, width) < 8:
        raise UsageError(
            f"A VAE needs images of at least 8 x 8 pixels; these are {width} x {height}. Use another --size."
        )
    # A third as many code values as pixel values keeps answers and cannot copy a perturbation; a gray picture has few
    # values to begin with, and with fewer than ten a place clean logits move so much that attacks hide among them.
    latent = max(10, round(16 * channels / 3))
    model = seeded(lambda: models.vae(channels=channels, latent=latent, width=64), plan.seed)
    data, validation = (_padded(parts[name], VAE.stride) for name in ("train", "validation"))
    settings = Settings(
        epochs=1, batch_size=min(len(data), at_once(data.shape, 128)), optimizer="adam", lr=2e-3, warmup=0.1,
        average=0.995, seed=plan.seed,
    )  # fmt: skip
    per_epoch = steps_per_epoch(data, settings)
    settings = replace(settings, epochs=plan.epochs or max(1, round(TRAINING_STEPS / per_epoch)))
    run = Run(model, Autoencoding(sigma=0.02), data, validation, settings, plan.checkpoint, plan.device)
    total = settings.epochs * per_epoch
    minutes = total * _seconds_per_step(run) / 60
    if minutes > plan.max_minutes:
        raise UsageError(
            f"Training a VAE on {height} x {width} images would take about {_readable(minutes)} minutes here "
            f"({total} steps), more than the {plan.max_minutes:g} allowed. Give --max-minutes "
            f"{_readable(minutes * 1.2)}, smaller pictures (--size) or fewer --epochs; --purifier pca takes seconds, "
            "but may notice few attacks."
        )
    if plan.replaces:
        _make_room(run)
    about = f"Training the VAE (about {_readable(minutes)} min)"
    train(run, lambda done, total, _: watch(about, done, total))
    return model


def _make_room(run: Run) -> None:
    """Remove a finished training of other settings; an interrupted one stays, and the loop names the difference."""
    checkpoint = run.folder / "checkpoint.safetensors" if run.folder is not None else None
    if run.folder is None or checkpoint is None or not checkpoint.exists():
        return
    other = differences(checkpoint, run.configuration())
    if other and progress_of(checkpoint).step >= total_steps(read_json(run.folder / "run.json")):
        warn(f"The VAE in {run.folder} was trained with other settings ({', '.join(other)}) and is trained again.")
        shutil.rmtree(run.folder)


def _readable(minutes: float) -> str:
    """Minutes as a person says them: whole ones, or tenths below 10; never 0, rounded up so that it suffices."""
    return f"{math.ceil(minutes)}" if minutes >= 10 else f"{math.ceil(minutes * 10) / 10:g}"


def _padded(data: Dataset, stride: int) -> Dataset:
    """Images whose sides `stride` divides: the last row and column repeated, as LatentVAE does when it purifies."""
    down, right = (torch.arange(side + -side % stride).clamp(max=side - 1) for side in data.shape[1:])
    return replace(data, pixels=data.pixels[:, :, down[:, None], right])


def _seconds_per_step(run: Run) -> float:
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
        torch.autograd.grad(loss, list(model.parameters()))
        times.append(time.monotonic() - start)
    return min(times) * size / few
