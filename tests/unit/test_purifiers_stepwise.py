"""The gradient of many steps against central differences, and its memory."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from alu import models
from alu.purifiers import ADP, SOAP, DiffPure, LongRun, Purifier, ReverseAttack
from alu.rng import generator
from alu.training.recipes import seeded
from tests.conftest import SmoothClassifier, smooth_images
from tests.contracts.parts import awake, small_contrastive, small_energy
from tests.toys import purified_logit, relative_error

SHAPE = (3, 8, 8)


def steady(images: Tensor, shape: tuple[int, ...], seed: int, *names: object) -> Tensor:
    """Noise that is the same for every image: it must not change where an image is moved a little."""
    noise = torch.randn(shape, generator=generator(seed, "steady", *names), dtype=torch.float64)
    return noise.to(images).expand(len(images), *shape)


@pytest.fixture(autouse=True)
def _steady_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("denoising", "long_run"):
        monkeypatch.setattr(f"alu.purifiers.{module}.normal_per_image", steady)
    uniform = "alu.purifiers.reverse.uniform_per_image"
    monkeypatch.setattr(uniform, lambda numbers, *rest: steady(torch.zeros(len(numbers)), *rest).clamp(-0.9, 0.9))


def lively_score() -> nn.Module:
    """A score network whose untrained output is as large as the noise."""
    return awake(seeded(lambda: models.score(width=8), 7), 3.0).double()


EXACT = {
    "adp": lambda: ADP(lively_score(), noise_level=0.05, steps=4, share=0.4, draws=2),
    "diffpure": lambda: DiffPure(lively_score(), time=0.05, steps=5),
    "long run": lambda: LongRun(small_energy(SHAPE).double(), steps=6, step_size=0.02, draws=2),
}


@pytest.mark.parametrize("name", list(EXACT))
def test_unrolled_is_exact(name: str) -> None:
    purifier: Purifier = EXACT[name]()
    images = 0.4 + 0.2 * smooth_images(2)  # noise must not reach 0 or 1, where clipping has no derivative
    assert purifier.traits.gradient == "exact"
    assert relative_error(purified_logit(purifier, "unrolled"), images) <= 1e-4


def test_the_check_can_tell() -> None:
    purifier, images = EXACT["diffpure"](), 0.4 + 0.2 * smooth_images(2)
    assert relative_error(purified_logit(purifier, "surrogate"), images) > 0.01
    assert relative_error(purified_logit(purifier, "bpda"), images) > 0.01


class Smooth(SOAP):
    """SOAP whose deployed steps are the smooth ones that attackers differentiate."""

    def step(self, at: Tensor, images: Tensor, number: int) -> Tensor:
        with torch.enable_grad():
            return self.smooth_step(at.detach().requires_grad_(True), images, number)


class SmoothReverse(ReverseAttack):
    def step(self, at: Tensor, images: Tensor, number: int) -> Tensor:
        with torch.enable_grad():
            return self.smooth_step(at.detach().requires_grad_(True), images, number)


class Curved(nn.Module):
    """Unit vectors from a smooth network."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = SmoothClassifier().double()
        self.negatives = nn.functional.normalize(self.inner(smooth_images(5, seed=3)).detach(), dim=1)

    def forward(self, images: Tensor) -> Tensor:
        return nn.functional.normalize(self.inner(images), dim=1)


@pytest.mark.parametrize(
    "purifier",
    [
        Smooth(SmoothClassifier().double(), steps=3, step_size=0.01, radii=2),
        SmoothReverse(Curved(), eps=0.05, steps=3, step_size=0.01),
    ],
)
def test_smooth_sign_steps_are_differentiated_exactly_but_for_their_scale(purifier: Purifier) -> None:
    # The scale c of the smooth sign is held fixed, so that the check has some room.
    assert relative_error(purified_logit(purifier, "unrolled"), smooth_images(2)) <= 0.05
    assert purifier.traits.gradient == "approximate"


def test_the_stand_in_for_a_sign_says_more_than_the_identity() -> None:
    purifier = ReverseAttack(small_contrastive(SHAPE).double(), steps=3)
    images = smooth_images(2).requires_grad_(True)
    (through,) = torch.autograd.grad(purifier(images).square().sum(), images)
    (identity,) = torch.autograd.grad(purifier(images, "bpda").square().sum(), images)
    assert float((through - identity).norm() / identity.norm()) > 0.01


# As in test_purifiers_unrolled.py: the peak is reset before the measurement.
MEMORY = """
import sys, torch
from pathlib import Path
from alu import models
from alu.purifiers import DiffPure
torch.set_num_threads(1)

def kilobytes(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1])

network = models.score(width=16)
images = torch.rand(32, 3, 32, 32).requires_grad_(True)
torch.autograd.grad(DiffPure(network, steps=1)(images[:2]).sum(), images)
Path("/proc/self/clear_refs").write_text("5")
before = kilobytes("VmRSS")
torch.autograd.grad(DiffPure(network, steps=int(sys.argv[1]))(images).sum(), images)
print(kilobytes("VmHWM") - before)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc to measure peak memory")
def test_memory_grows_by_no_more_than_the_images_on_the_way() -> None:
    used = {}
    for steps in (3, 33):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(MEMORY), str(steps)], capture_output=True, text=True, check=True
        )
        used[steps] = int(done.stdout)
    kept = 30 * 32 * 3 * 32 * 32 * 4 / 1024
    assert used[3] > 1000, "the measurement must see the memory of one step"
    assert used[33] - used[3] <= 2 * kept, used
