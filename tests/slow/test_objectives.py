"""Each adversarial objective on real images, from a robust network: its own loss falls, and robustness stays."""

from __future__ import annotations

import pytest
import torch

from alu import data, models
from alu.attacks import PGD
from alu.defense import batched_logits
from alu.training.adversarial import AdversarialTraining, Friendly, Gairat, Mart, Trades
from alu.training.awp import AWP
from alu.training.loop import Run, train
from alu.training.objectives import Objective
from alu.training.settings import Settings
from tests.conftest import use_all_cores

pytestmark = pytest.mark.slow
SEARCH = {"steps": 3, "step_size": 4 / 255}


@pytest.mark.parametrize(
    "objective",
    [
        AdversarialTraining(**SEARCH), Trades(beta=6.0, **SEARCH), Mart(weight=5.0, **SEARCH),
        Friendly(patience=2, earliest=2, **SEARCH), Gairat(warmup=0.0, **SEARCH), AWP(AdversarialTraining(**SEARCH)),
    ],
    ids=["at", "trades", "mart", "fat", "gairat", "awp"],
)  # fmt: skip
def test_a_robust_network_goes_on_learning(objective: Objective) -> None:
    # FAT with its last patience from the start: as it grows the images become harder, and the loss rises.
    use_all_cores()
    images, test = data.sample("calibration"), data.sample("test").draw(200)
    settings = Settings(epochs=3, batch_size=100, lr=0.01, warmup=0.2, augment="crop-flip", average=0.9)
    run = Run(
        models.load("cifar10-at"), objective, images.take(range(1_400)), images.take(range(1_400, 1_500)), settings
    )
    before = _robust(run.model, test)
    losses: list[float] = []
    train(run, lambda done, total, figures: losses.append(figures["loss"]))
    first, last = (sum(part) / len(part) for part in (losses[:14], losses[-14:]))
    after = _robust(run.model, test)
    print(f"{type(objective).__name__}: loss {first:.3f} to {last:.3f}, PGD-20 {before} to {after} of 200")
    # 42 steps on images that it has not seen: the loss falls by 2 %, and at most 10 of 200 images are given up.
    assert last < 0.98 * first
    assert after >= before - 10


def _robust(model: torch.nn.Module, test: data.Dataset) -> int:
    shown = PGD(eps=8 / 255, steps=20)(model, test.images, test.labels)
    return int((batched_logits(model, shown).argmax(1) == test.labels).sum())
