"""Every objective trains a throw-away network on real images: in some seconds its loss falls by a stated margin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from alu import data, models
from alu.training.adversarial import AdversarialTraining, Friendly, Gairat, Mart, Trades
from alu.training.awp import AWP
from alu.training.generative import ScoreMatching
from alu.training.loop import Run, train
from alu.training.objectives import Autoencoding, Classification, Objective
from alu.training.purified import AsymmetricUnified, GuidedDenoising, Unified
from alu.training.recipes import seeded
from alu.training.self_supervised import Contrasting, LabelConsistency
from alu.training.settings import Settings


def classifier() -> nn.Module:
    return models.resnet18(width=8)


def asymmetric() -> nn.Module:
    made = models.asymmetric(width=8)
    made.vae.load_state_dict(models.load("cifar10-vae").state_dict())
    return made


def contrastive() -> nn.Module:
    made = models.contrastive(code=16, negatives=8)
    made.backbone.load_state_dict(models.load("cifar10-at").state_dict())
    return made


@dataclass(frozen=True)
class Case:
    """A network, what it minimises, and what is left of the loss of the first steps at the end, at most."""

    build: Callable[[], nn.Module]
    objective: Callable[[], Objective]
    left: float
    settings: dict[str, Any]


ADAM = {"optimizer": "adam", "lr": 3e-3}
SGD = {"lr": 0.1}
CASES = {
    "classification": Case(classifier, Classification, 0.85, SGD),
    "autoencoding": Case(lambda: models.vae(latent=4, width=16), Autoencoding, 0.7, ADAM),
    "unified": Case(classifier, lambda: Unified(models.load("cifar10-vae"), steps=2, stepped=0.1), 0.9, SGD),
    "asymmetric": Case(asymmetric, lambda: AsymmetricUnified(steps=2, stepped=0.1), 0.9, SGD),
    "denoising": Case(
        lambda: models.unet(width=8, levels=2),
        lambda: GuidedDenoising(models.load("cifar10-standard"), steps=2, step_size=5 / 255), 0.9, ADAM | {"lr": 1e-2},
    ),
    "one step": Case(classifier, lambda: AdversarialTraining(steps=1, step_size=10 / 255), 0.92, SGD),
    "adversarial training": Case(classifier, lambda: AdversarialTraining(steps=2, step_size=5 / 255), 0.9, SGD),
    "trades": Case(classifier, lambda: Trades(steps=2, step_size=5 / 255), 0.9, SGD),
    # At one patience: the schedule makes images harder on the way, and losses cannot be compared.
    "friendly": Case(classifier, lambda: Friendly(earliest=1, patience=1, steps=2, step_size=5 / 255), 0.9, SGD),
    "gairat": Case(classifier, lambda: Gairat(steps=2, step_size=5 / 255), 0.95, SGD),
    "mart": Case(classifier, lambda: Mart(steps=2, step_size=5 / 255), 0.9, SGD),
    "label consistency": Case(classifier, LabelConsistency, 0.97, SGD),
    "contrasting": Case(contrastive, Contrasting, 0.9, ADAM),
    "score matching": Case(lambda: models.score(width=16), ScoreMatching, 0.9, ADAM),
    "awp": Case(classifier, lambda: AWP(AdversarialTraining(steps=2, step_size=5 / 255)), 0.9, SGD),
}  # fmt: skip


@pytest.fixture(scope="module")
def images() -> data.Dataset:
    """Real images at half their size: an eighth of the work with what batches and networks cost besides."""
    whole = data.sample("calibration")
    return replace(whole, pixels=F.avg_pool2d(whole.images, 2))


@pytest.mark.parametrize("name", CASES)
def test_the_loss_falls(name: str, images: data.Dataset) -> None:
    case = CASES[name]
    objective = case.objective()
    if objective.measured_on is not None:
        objective.measured_on = 20
    settings = Settings(epochs=4, batch_size=64, warmup=0.2, augment="flip", **case.settings)
    run = Run(seeded(case.build, 1), objective, images.take(range(640)), images.take(range(640, 680)), settings)
    losses: list[float] = []
    train(run, lambda done, total, now: losses.append(now["loss"]))
    assert len(losses) == 40
    first, last = (sum(part) / len(part) for part in (losses[:5], losses[-10:]))
    assert last <= case.left * first, f"{last / first:.3f} of the first loss is left"
    assert all(torch.isfinite(weight).all() for weight in run.model.parameters())
