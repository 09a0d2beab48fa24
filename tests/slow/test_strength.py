"""Our searches beside foolbox's on two networks that others trained, with the images that a figure deserves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.test_strength import (
    lengths_against_foolbox,
    pgd_against_foolbox,
    third_party_resnet18,
    third_party_resnet20,
)

pytestmark = pytest.mark.slow
every_eps = pytest.mark.parametrize("eps", [0.5 / 255, 1 / 255, 2 / 255])


@every_eps
def test_pgd_on_the_third_party_resnet20(shared_data: Path, eps: float) -> None:
    ours, theirs = pgd_against_foolbox(third_party_resnet20(shared_data), 200, eps)
    print(f"PGD-20, ResNet-20, {255 * eps:g}/255: ours leaves {ours:.3f}, foolbox's {theirs:.3f}")
    assert ours <= theirs + 0.01


@every_eps
def test_pgd_on_the_third_party_resnet18(eps: float) -> None:
    ours, theirs = pgd_against_foolbox(third_party_resnet18(), 200, eps)
    print(f"PGD-20, ResNet-18, {255 * eps:g}/255: ours leaves {ours:.3f}, foolbox's {theirs:.3f}")
    assert ours <= theirs + 0.01


def test_carlini_wagner_on_the_third_party_resnet20(shared_data: Path) -> None:
    ours, theirs = lengths_against_foolbox(third_party_resnet20(shared_data), 200, 3, 50)
    print(f"C&W L2, ResNet-20: median length {ours:.4f}, foolbox's {theirs:.4f}")
    assert ours <= 1.1 * theirs


def test_carlini_wagner_on_the_third_party_resnet18() -> None:
    ours, theirs = lengths_against_foolbox(third_party_resnet18(), 200, 2, 20)
    print(f"C&W L2, ResNet-18: median length {ours:.4f}, foolbox's {theirs:.4f}")
    assert ours <= 1.1 * theirs
