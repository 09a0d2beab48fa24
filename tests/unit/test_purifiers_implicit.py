"""The gradient at convergence against central differences, in float64 on tiny smooth networks."""

from __future__ import annotations

import pytest
import torch

from alu.purifiers import LatentVAE
from tests.conftest import smooth_images
from tests.toys import purified_logit, relative_error, tiny_vae


def test_implicit_agrees_at_convergence() -> None:
    images = smooth_images(2)
    purifier = LatentVAE(tiny_vae(latent=1), steps=600, lr=0.3, solver="gd", prior=0.02, schedule="constant")
    with torch.no_grad():
        residual = float((purifier(images) - images).norm())
    assert residual > 0.1, "the test must have a residual, or H and its Gauss-Newton part agree"
    assert relative_error(purified_logit(purifier, "implicit"), images, count=3, step=1e-4) <= 1e-2


@pytest.mark.parametrize("kind", ["sse", "mse", "norm"])
def test_the_fallback_of_implicit_has_the_scale_of_its_objective(kind: str) -> None:
    # Far from a minimum H is indefinite and the Gauss-Newton part steps in; its scale cancels against that of H_xz.
    images = smooth_images(4).requires_grad_(True)
    gradients = []
    for objective_kind in ("sse", kind):
        purifier = LatentVAE(tiny_vae(latent=2), steps=0, objective=objective_kind, start="random")
        gradients.append(torch.autograd.grad(purifier(images, "implicit").square().sum(), images)[0])
    norms = [g.flatten(1).norm(dim=1) for g in gradients]
    assert ((norms[1] / norms[0] > 0.3) & (norms[1] / norms[0] < 3)).all()
