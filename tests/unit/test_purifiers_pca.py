"""PCA of large pictures: the same directions from less memory."""

from __future__ import annotations

import pytest
import torch

from alu.purifiers import PCA, pca
from tests.contracts.parts import images_like

SHAPE = (3, 12, 10)


def test_directions_found_in_blocks_are_the_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    images = images_like(60, SHAPE)
    whole = PCA(30).fit(images)
    monkeypatch.setattr(pca, "AT_ONCE", 5_000)  # 10 pixels at a time
    blocks = PCA(30).fit(images)
    torch.testing.assert_close(blocks.components_, whole.components_, rtol=0, atol=1e-5)
    torch.testing.assert_close(blocks.mean_, whole.mean_)
    products = blocks.components_.double() @ blocks.components_.double().T
    torch.testing.assert_close(products, torch.eye(30).double(), rtol=0, atol=1e-5)
    torch.testing.assert_close(blocks(images), whole(images), rtol=0, atol=1e-5)


def test_directions_without_variance_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pca, "AT_ONCE", 100)
    images = images_like(10, SHAPE).repeat(2, 1, 1, 1)
    fitted = PCA(15).fit(images)
    assert len(fitted.components_) == 9, "ten images vary in nine directions"
    torch.testing.assert_close(fitted(images), images, rtol=0, atol=1e-5)
    again = PCA(15)
    again.load_state_dict(fitted.state_dict())
    assert torch.equal(again(images), fitted(images))


def test_no_more_than_a_few_blocks_are_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every product of two matrices in float64 is as small as promised."""
    largest = 0
    multiply = torch.Tensor.__matmul__

    def watched(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        nonlocal largest
        largest = max(largest, one.numel(), other.numel())
        return multiply(one, other)

    images = images_like(40, (3, 64, 64))
    monkeypatch.setattr(pca, "AT_ONCE", 80_000)
    monkeypatch.setattr(torch.Tensor, "__matmul__", watched)
    PCA(20).fit(images)
    assert 0 < largest <= 80_000 / 8
    assert images.numel() > 40 * largest
