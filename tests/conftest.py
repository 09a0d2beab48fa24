"""Fixtures: tiny networks, real sample images, and places that may be missing on a stranger's machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import alu
from alu import data
from alu.rng import generator
from alu.training.recipes import seeded

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared" / "data"


def use_all_cores() -> None:
    """For longer tests; unless others run beside them, whose threads would fight with theirs."""
    torch.set_num_threads(1 if "PYTEST_XDIST_WORKER" in os.environ else os.cpu_count() or 1)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    # Tests are small: threads cost more than they give, and float sums stay the same on every machine.
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    if not SHARED.is_dir():
        pytest.skip("needs ../shared/data (third-party checkpoint, CIFAR-100, tiny-ImageNet), which is not there")
    return SHARED


@pytest.fixture(scope="session")
def sample() -> data.Dataset:
    return data.sample("test")


@pytest.fixture(scope="session")
def clean() -> Tensor:
    """300 clean calibration images."""
    return data.sample("calibration").images[:300]


@pytest.fixture(scope="session")
def saved_pca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled defence with PCA, saved: a real one that is loaded and answers quickly."""
    defense = alu.load("demo-pca")
    assert isinstance(defense, alu.Defense)
    folder = tmp_path_factory.mktemp("saved") / "demo-pca"
    defense.save(folder)
    return folder


@pytest.fixture(scope="session")
def workers() -> Iterator[alu.Workers]:
    """Two processes of a Ray that all tests share."""
    with alu.Workers(2) as started:
        yield started.start()


def smooth_images(count: int, shape: tuple[int, int, int] = (3, 8, 8), seed: int = 0) -> Tensor:
    """Float64 images well inside [0, 1], so that no clipping hides a derivative."""
    values = torch.rand((count, *shape), generator=generator(seed, "test images"), dtype=torch.float64)
    return 0.2 + 0.6 * values


class SmoothClassifier(nn.Module):
    """A tiny classifier with smooth activations, for finite differences."""

    def __init__(self, shape: tuple[int, int, int] = (3, 8, 8), classes: int = 4) -> None:
        super().__init__()
        size = shape[0] * shape[1] * shape[2]
        self.layers = seeded(
            lambda: nn.Sequential(nn.Flatten(), nn.Linear(size, 16), nn.Tanh(), nn.Linear(16, classes)), 7
        )

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = 3.0 * self.layers(images)
        return out
