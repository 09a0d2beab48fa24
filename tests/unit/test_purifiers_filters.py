"""The gradients of filters and chains against central differences; rounding passes one that is not zero."""

from __future__ import annotations

import pytest
import torch

from alu.purifiers import JPEG, PCA, BitDepth, Blur, Chain, Median
from tests.conftest import smooth_images
from tests.toys import purified_logit, relative_error


@pytest.mark.parametrize("purifier", [Blur(0.8), Median(3), PCA(20), Chain(Blur(0.5), PCA(20))])
def test_filters_are_exact(purifier: object) -> None:
    parts = purifier.parts if isinstance(purifier, Chain) else [purifier]
    for part in parts:
        if isinstance(part, PCA):
            part.fit(smooth_images(40, seed=5))
    assert relative_error(purified_logit(purifier, "unrolled"), smooth_images(2)) <= 1e-4


@pytest.mark.parametrize("purifier", [BitDepth(3), JPEG(50)])
def test_rounding_passes_a_useful_gradient(purifier: object) -> None:
    images = smooth_images(2).requires_grad_(True)
    (gradient,) = torch.autograd.grad(purified_logit(purifier, "surrogate")(images), images)  # type: ignore[operator]
    assert float(gradient.norm()) > 1e-3
