"""Fit a defence around somebody's classifier: train or take a purifier, calibrate, check it on held-out images."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from alu import models
from alu.check import AluWarning, check_logits, warn
from alu.data.dataset import Dataset
from alu.defense import Defense, batched_logits
from alu.detectors import LogitShift
from alu.errors import InputError, UsageError, nearest
from alu.evaluation.intervals import Share
from alu.purifiers import JPEG, PCA, Blur, LatentVAE, Median, Purifier
from alu.training.batches import batches, steps_per_epoch
from alu.training.loop import Run, train
from alu.training.objectives import Autoencoding
from alu.training.recipes import seeded
from alu.training.settings import Settings

Watcher = Callable[[str, int, int], None]
"""Called with what is being done, how much is done, and how much there is."""

TRAINING_STEPS = 2000
"""Optimiser steps of a VAE's training unless epochs are given: about 5 minutes on two slow cores at 28 pixels."""


@dataclass(frozen=True)
class Plan:
    """What to fit. `purifier`: "vae" trains one; "pca", "blur", "median", "jpeg"; a bundled VAE's name; or a file."""

    purifier: str = "vae"
    steps: int = 20
    rule: str = "alu"
    reference: str = "input"
    false_alarm: float = 0.005
    epochs: int | None = None
    max_minutes: float = 120.0
    seed: int = 0
    device: str = "cpu"
    checkpoint: Path | None = None


@dataclass(frozen=True)
class Fitted:
    """A calibrated defence and what it does on held-out images that nothing was chosen on."""

    defense: Defense
    bare: Share
    defended: Share
    false_alarms: Share
    seconds: float


def fit(classifier: Callable[[torch.Tensor], Any], parts: dict[str, Dataset], plan: Plan, watch: Watcher) -> Fitted:
    """Fit a defence on `parts` (train, calibration, validation, test)."""
    started = time.monotonic()
    _check_classifier(classifier, parts["calibration"])
    detector = LogitShift(plan.false_alarm)
    detector.refuse_too_few(len(parts["calibration"]), " in the calibration part (15 % of a folder)")
    purifier = make_purifier(parts, plan, watch).to(plan.device)
    defense = Defense(classifier, purifier, detector, plan.rule, plan.reference)
    images = parts["calibration"].images.to(plan.device)
    defense.calibrate(images, watch=lambda done, total: watch("Calibrating", done, total))
    defense.classes = parts["train"].classes
    held_out = parts["test"].draw(min(500, len(parts["test"])), plan.seed)
    watch("Checking on held-out images", 0, 1)
    decision = defense.decide(held_out.images.to(plan.device))
    bare = batched_logits(classifier, held_out.images.to(plan.device))
    labels = held_out.labels.to(plan.device)
    watch("Checking on held-out images", 1, 1)
    return Fitted(
        defense,
        Share(int((bare.argmax(1) == labels).sum()), len(labels)),
        Share(int(((decision.label == labels) & decision.accepted).sum()), len(labels)),
        Share(int(decision.flagged.sum()), len(labels)),
        time.monotonic() - started,
    )


def make_purifier(parts: dict[str, Dataset], plan: Plan, watch: Watcher) -> Purifier:
    """The purifier that the plan names, fitted or trained where it needs to be."""
    simple: dict[str, Callable[[], Purifier]] = {"blur": Blur, "median": Median, "jpeg": JPEG}
    if plan.purifier in simple:
        return simple[plan.purifier]()
    images = parts["train"]
    if plan.purifier == "pca":
        some = images.draw(min(10_000, len(images)), plan.seed).images
        watch("Fitting PCA", 0, 1)
        values = some[0].numel()
        fitted = PCA(min(500, values // 6 or 1, len(some) - 1)).fit(some)
        watch("Fitting PCA", 1, 1)
        return fitted
    if plan.purifier == "vae":
        return LatentVAE(_trained_vae(parts, plan, watch), steps=plan.steps, seed=plan.seed)
    if plan.purifier in models.names("vae"):
        return LatentVAE(plan.purifier, steps=plan.steps, seed=plan.seed)
    if plan.purifier.endswith(".safetensors"):
        return LatentVAE(models.load_file(plan.purifier), steps=plan.steps, seed=plan.seed)
    known = ["vae", "pca", *simple, *models.names("vae")]
    raise UsageError(f"There is no purifier {plan.purifier!r}. {nearest(plan.purifier, known)}")


def _trained_vae(parts: dict[str, Dataset], plan: Plan, watch: Watcher) -> torch.nn.Module:
    """A VAE trained on the clean training images; refused beforehand where it would take too long."""
    channels = parts["train"].shape[0]
    # About a third as many code values as pixel values: enough to keep answers, too few to copy a perturbation.
    latent = max(4, round(16 * channels / 3))
    model = seeded(lambda: models.vae(channels=channels, latent=latent, width=64), plan.seed)
    settings = Settings(
        epochs=1, batch_size=min(128, len(parts["train"])), optimizer="adam", lr=2e-3, warmup=0.1, average=0.995,
        seed=plan.seed,
    )  # fmt: skip
    per_epoch = steps_per_epoch(parts["train"], settings)
    settings = replace(settings, epochs=plan.epochs or max(1, round(TRAINING_STEPS / per_epoch)))
    run = Run(
        model, Autoencoding(sigma=0.02), parts["train"], parts["validation"], settings, plan.checkpoint, plan.device
    )
    total = settings.epochs * per_epoch
    minutes = total * _seconds_per_step(run) / 60
    if minutes > plan.max_minutes:
        shape = " x ".join(map(str, parts["train"].shape[1:]))
        raise UsageError(
            f"Training a VAE on {shape} images would take about {minutes:.0f} minutes here ({total} steps), more than "
            f"the {plan.max_minutes:g} allowed. Give --max-minutes {minutes * 1.2:.0f}, smaller pictures (--size), "
            "fewer --epochs, or --purifier pca."
        )
    train(run, lambda done, total, _: watch(f"Training the VAE (about {max(1, round(minutes))} min)", done, total))
    return model


def _seconds_per_step(run: Run) -> float:
    """Time of one optimiser step, measured on a throw-away copy."""
    import copy

    model = copy.deepcopy(run.model).to(run.device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    batch = next(iter(batches(run.data, run.settings, 0)))
    batch.images = batch.images.to(run.device)
    times = []
    for _ in range(3):
        start = time.monotonic()
        loss, _parts = run.objective.loss(model, batch)
        torch.autograd.grad(loss, list(model.parameters()))
        times.append(time.monotonic() - start)
    return min(times)


def _check_classifier(classifier: Callable[[torch.Tensor], Any], data: Dataset) -> None:
    """Fail early, on a few images, with a sentence about what the classifier does wrong."""
    few = data.draw(min(100, len(data)), 0)
    who = f"The classifier {type(classifier).__name__}"
    try:
        with torch.no_grad():
            answer = classifier(few.images)
    except Exception as error:
        shape = list(few.images.shape)
        raise InputError(f"{who} failed on images of shape {shape}: {type(error).__name__}: {error}.") from error
    logits = check_logits(answer, len(few), who)
    if logits.shape[1] != len(data.classes):
        raise InputError(
            f"{who} answers with {logits.shape[1]} classes, but {data.name} has {len(data.classes)}: "
            f"{', '.join(data.classes[:5])}... Their number and order must agree."
        )
    right = int((logits.argmax(1) == few.labels.to(logits.device)).sum())
    if right < 2 * len(few) / len(data.classes) and len(few) >= 50:
        warn(
            f"{who} is right on only {right} of {len(few)} images. Does it expect normalised images, or the classes in "
            "another order than the sorted folder names?"
        )


__all__ = ["AluWarning", "Fitted", "Plan", "fit", "make_purifier"]
