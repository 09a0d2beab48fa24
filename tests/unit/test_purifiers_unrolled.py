"""The gradient of N latent steps against central differences, in float64 on tiny smooth networks."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from alu.purifiers import LatentVAE
from tests.conftest import smooth_images
from tests.toys import purified_logit, relative_error, tiny_vae


@pytest.mark.parametrize("kind", ["sse", "mse", "norm"])
@pytest.mark.parametrize("start", ["encoder", "random"])
@pytest.mark.parametrize("prior", [0.0, 0.05])
def test_unrolled_is_exact(kind: str, start: str, prior: float) -> None:
    rate = {"sse": 0.02, "mse": 2.0, "norm": 0.1}[kind]
    purifier = LatentVAE(
        tiny_vae(), steps=6, lr=rate, solver="gd", objective=kind, start=start, prior=prior, schedule="constant"
    )
    assert relative_error(purified_logit(purifier, "unrolled"), smooth_images(2)) <= 1e-4


def test_unrolled_is_exact_with_a_falling_rate() -> None:
    purifier = LatentVAE(tiny_vae(), steps=5, lr=0.03, solver="gd", schedule="cosine")
    assert relative_error(purified_logit(purifier, "unrolled"), smooth_images(2)) <= 1e-4


def test_adam_uses_its_twin() -> None:
    vae = tiny_vae()
    images = smooth_images(2).requires_grad_(True)
    adam = LatentVAE(vae, steps=5, lr=0.05, solver="adam", twin_lr=0.02)
    twin = LatentVAE(vae, steps=5, lr=0.02, solver="gd", schedule="constant")
    gradients = [torch.autograd.grad(p(images).square().sum(), images)[0] for p in (adam, twin)]
    weights = [p(images).detach() for p in (adam, twin)]
    assert not torch.equal(*weights), "the deployed values differ"
    # The twin's backward starts from the gradient at the deployed output, so the two agree only through the Jacobian.
    probe = torch.ones_like(images)
    jacobians = [torch.autograd.grad((p(images) * probe).sum(), images)[0] for p in (adam, twin)]
    torch.testing.assert_close(*jacobians)
    assert adam.traits.gradient == "twin"
    assert twin.traits.gradient == "exact"
    assert all(torch.isfinite(g).all() for g in gradients)


def test_the_twins_rate_is_stable() -> None:
    purifier = LatentVAE(tiny_vae(), steps=60, solver="adam")
    images = smooth_images(3).requires_grad_(True)
    (gradient,) = torch.autograd.grad(purifier(images).sum(), images)
    assert torch.isfinite(gradient).all()
    assert float(gradient.abs().max()) < 1e3


# The peak is reset before the measurement: a child inherits its parent's peak, however large the tests have grown.
MEMORY = """
import sys, torch
from pathlib import Path
from alu import models
from alu.purifiers import LatentVAE
torch.set_num_threads(1)

def kilobytes(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1])

vae = models.vae(latent=4, width=48)
images = torch.rand(64, 3, 32, 32).requires_grad_(True)
warm = LatentVAE(vae, steps=1, lr=1e-4, solver="gd")
torch.autograd.grad(warm(images[:2]).sum(), images)
Path("/proc/self/clear_refs").write_text("5")
before = kilobytes("VmRSS")
torch.autograd.grad(LatentVAE(vae, steps=int(sys.argv[1]), lr=1e-4, solver="gd")(images).sum(), images)
print(kilobytes("VmHWM") - before)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc to measure peak memory")
def test_unrolled_memory_does_not_grow_with_the_steps() -> None:
    used = {}
    for steps in (5, 100):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(MEMORY), str(steps)], capture_output=True, text=True, check=True
        )
        used[steps] = int(done.stdout)
    assert used[5] > 1000, "the measurement must see the memory of one step"
    assert used[100] <= 2 * used[5], used
