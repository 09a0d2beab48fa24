"""Fit a defence around somebody's classifier: train or take a purifier, calibrate, check it on held-out images."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from alu import models
from alu.check import check_classifier, evaluating, find_device, warn
from alu.data.dataset import Dataset
from alu.decision import RuleName, find_rule
from alu.defense import REFERENCES, Defense, Reference
from alu.detectors import Detector, LogitPeak, LogitShift
from alu.detectors.base import least_images
from alu.errors import DataError, InputError, StorageError, UsageError, nearest
from alu.progress import Watch, at_once, silent
from alu.purifiers import JPEG, PCA, Blur, LatentVAE, Median, Purifier
from alu.training.fitted import Fitted, measure
from alu.training.fitting_vae import Budget, trained_vae

FILTERS: dict[str, Callable[[], Purifier]] = {"blur": Blur, "median": Median, "jpeg": JPEG}

DETECTORS: dict[str, type[Detector]] = {"peak": LogitPeak, "shift": LogitShift}


@dataclass(frozen=True, kw_only=True)
class Plan(Budget):
    """What to fit. `purifier`: "vae" trains one; "pca", "blur", "median", "jpeg"; a bundled VAE's name; or a file.
    `detector`: "peak" (largest logit change) or "shift" (their sum, the paper's)."""

    purifier: str = "vae"
    steps: int = 20
    detector: str = "peak"
    rule: RuleName = "alu"
    reference: Reference = "input"
    false_alarm: float = 0.005

    def __post_init__(self) -> None:
        # Everything that can be refused is refused here, before an hour of training and not after it.
        known = ["vae", "pca", *FILTERS, *models.names("vae")]
        if self.purifier.endswith(".safetensors"):
            if not Path(self.purifier).is_file():
                raise StorageError(f"The VAE {self.purifier} does not exist. Give the path of a .safetensors file.")
        elif self.purifier not in known:
            raise UsageError(f"There is no purifier {self.purifier!r}. {nearest(self.purifier, known)}")
        find_device(self.device)
        find_rule(self.rule)
        if self.reference not in REFERENCES:
            raise UsageError(f"There is no reference {self.reference!r}. {nearest(self.reference, list(REFERENCES))}")
        if self.reference == "reconstruction" and self.purifier in ("pca", *FILTERS):
            raise UsageError(
                f"--reference reconstruction needs a VAE; {self.purifier} has no reconstruction to compare with."
            )
        if self.detector not in DETECTORS:
            raise UsageError(f"There is no detector {self.detector!r}. {nearest(self.detector, list(DETECTORS))}")
        DETECTORS[self.detector](self.false_alarm)
        if self.steps < 0 or (self.epochs is not None and self.epochs < 1) or not self.max_minutes > 0:
            raise UsageError(
                f"A fit needs --steps of at least 0, --epochs of at least 1 and --max-minutes above 0; it was given "
                f"{self.steps}, {'the default' if self.epochs is None else self.epochs} and {self.max_minutes:g}."
            )
        if self.purifier != "vae" and (self.epochs is not None or self.checkpoint is not None):
            warn(f"--epochs and --checkpoint are for a VAE that is trained; {self.purifier} trains none.")

    @property
    def parts(self) -> tuple[str, ...]:
        """The splits of the data that this fit needs."""
        needed = {"vae": ("train", "validation"), "pca": ("train",)}
        return (*needed.get(self.purifier, ()), "calibration", "test")


def fit(classifier: Callable[[Tensor], Any], parts: dict[str, Dataset], plan: Plan, watch: Watch = silent) -> Fitted:
    """Fit a defence on `parts`, the splits that `plan.parts` names, and measure it; `Fitted.save` refuses harm."""
    started = time.monotonic()
    clean, held_out = parts["calibration"], parts["test"]
    _check_classifier(classifier, clean, plan.device)
    _refuse_too_few(len(clean), plan.false_alarm)
    purifier = make_purifier(parts, plan, watch).to(plan.device)
    defense = Defense(classifier, purifier, DETECTORS[plan.detector](plan.false_alarm), plan.rule, plan.reference)
    portion = at_once(clean.shape, 100)
    watch("Calibrating", 0, len(clean))
    defense.calibrate(clean.images.to(plan.device), portion, lambda done, total: watch("Calibrating", done, total))
    defense.classes = clean.classes
    return measure(defense, held_out, seed=plan.seed, device=plan.device, watch=watch, started=started)


def make_purifier(parts: dict[str, Dataset], plan: Plan, watch: Watch) -> Purifier:
    """The purifier that the plan names, fitted or trained where it needs to be."""
    if plan.purifier in FILTERS:
        return FILTERS[plan.purifier]()
    if plan.purifier == "pca":
        train_part = parts["train"]
        some = train_part.draw(min(10_000, len(train_part)), plan.seed).images
        watch("Fitting PCA", 0, 1)
        fitted = PCA(max(1, min(500, some[0].numel() // 6, len(some) - 1))).fit(some)
        watch("Fitting PCA", 1, 1)
        return fitted
    if plan.purifier == "vae":
        vae = trained_vae(parts, plan, watch)
    else:
        from_file = plan.purifier.endswith(".safetensors")
        vae = models.load_file(plan.purifier) if from_file else models.load(plan.purifier)
    return LatentVAE(vae, steps=plan.steps, seed=plan.seed)


def _refuse_too_few(count: int, false_alarm: float) -> None:
    """Refuse, before the purifier is trained, a calibration in which nothing could ever be flagged."""
    least = least_images(false_alarm)
    if count < least:
        possible = math.ceil(1000 / (count + 1)) / 1000
        raise InputError(
            f"A false-alarm rate of {100 * false_alarm:g} % needs at least {least} calibration images, which are 15 % "
            f"of your own pictures; there are {count}. Give about {math.ceil(least / 0.15)} pictures in all, or allow "
            f"more false alarms: --false-alarm {possible:g}."
        )


def _check_classifier(classifier: Callable[[Tensor], Any], data: Dataset, device: str) -> None:
    """Fail early, on a few images, with a sentence about what the classifier does wrong."""
    if len(data.classes) < 2:
        raise DataError(f"{data.name} has one class only, {data.classes[0]}; a classifier needs at least two.")
    few = data.draw(min(100, len(data)), 0)
    who = f"The classifier {type(classifier).__name__}"
    images = few.images.to(device)
    with evaluating(classifier):
        logits, again = (check_classifier(classifier, images, data.name, data.classes, who) for _ in range(2))
    if not torch.equal(logits, again):
        warn(
            f"{who} does not answer twice alike: a random classifier's logits change without an attack, and the "
            "detector takes its chance for one. Make it deterministic if you can."
        )
    right = int((logits.argmax(1) == few.labels.to(logits.device)).sum())
    # Above 1/2 a classifier of two classes is not suspicious; twice the luck of the draw would be more than 1.
    if len(few) >= 50 and right < min(2 / len(data.classes), 0.6) * len(few):
        warn(
            f"{who} is right on only {right} of {len(few)} images. Does it expect normalised images, or the classes in "
            "another order than the sorted folder names?"
        )


__all__ = ["Fitted", "Plan", "fit", "make_purifier"]
