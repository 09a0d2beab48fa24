"""The neighbourhood check of a real network: what the attacks on its search must find."""

from __future__ import annotations

import pytest
import torch

import alu
from alu.attacks import adaptive, fooled
from tests.conftest import use_all_cores

pytestmark = pytest.mark.slow


def test_min_max_breaks_what_a_stranger_broke() -> None:
    """An independent attack broke these; all other attacks of ours leave the first, which is wrong within 6/255 by a
    margin of only 0.009."""
    use_all_cores()
    defense = alu.load("cifar10-at+check")
    test = alu.data.cifar10("test", n=1000, seed=0)
    chosen = torch.tensor([17, 2, 8, 13, 25, 27, 35, 42, 44, 47, 48])
    images, labels = test.images[chosen], test.labels[chosen]
    assert not bool(fooled(defense, images, labels).any())
    attack = adaptive.MinMax(eps=8 / 255, steps=50, targets=3)
    broken = fooled(defense, attack(defense, images, labels), labels)
    print(f"min-max breaks {int(broken.sum())} of {len(chosen)}")
    # A margin of 0.009 is a matter of luck on another processor; the others are not.
    assert int(broken[1:].sum()) == len(chosen) - 1
    assert int(broken.sum()) >= len(chosen) - 1
