"""Rule "graded" falls to attackers who know it, as every rule here does: who measures it must see that."""

from __future__ import annotations

import pytest
import torch

import alu
from alu.attacks import adaptive, fooled
from tests.conftest import use_all_cores

pytestmark = pytest.mark.slow


def test_the_attacks_that_know_it_leave_next_to_nothing() -> None:
    use_all_cores()
    purifier = alu.purifiers.LatentVAE("cifar10-vae", steps=20)
    defense = alu.Defense(alu.models.load("cifar10-standard"), purifier, alu.detectors.LogitShift(), "graded")
    defense.calibrate(alu.data.sample("calibration").images[:300])
    test = alu.data.sample("test").draw(20)
    left = ~fooled(defense, test.images, test.labels)
    assert int(left.sum()) >= 12
    for name in ("Direct", "Stealth", "Soft"):
        attack = getattr(adaptive, name)(steps=20, budget="quick", eps=8 / 255)
        broken = fooled(defense, attack(defense, test.images, test.labels), test.labels)
        print(f"{name} alone leaves {int((left & ~broken).sum())} of {int(left.sum())}")
        assert int((left & ~broken).sum()) <= 1, name
    assert torch.is_grad_enabled()
