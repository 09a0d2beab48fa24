"""models/resnet: batch norm inside convolutions."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from alu import rng
from alu.models.resnet import Projection, normalised


def layers() -> tuple[nn.Conv2d, nn.BatchNorm2d]:
    """A convolution and a batch norm whose statistics and weights are far from 0 and 1."""
    conv, norm = nn.Conv2d(3, 5, 3, 2, 1, bias=False).double(), nn.BatchNorm2d(5).double()
    draws = rng.generator(0, "layers")
    with torch.no_grad():
        for tensor in (conv.weight, norm.weight, norm.bias, norm.running_mean, norm.running_var):
            assert tensor is not None
            tensor.copy_(torch.rand(tensor.shape, generator=draws, dtype=torch.float64) + 0.2)
    return conv, norm


IMAGES = torch.rand((4, 3, 9, 9), generator=rng.generator(1, "images"), dtype=torch.float64)


def test_in_eval_mode_one_convolution_does_the_work_of_both() -> None:
    conv, norm = layers()
    norm.eval()
    images = IMAGES.clone().requires_grad_(True)
    expected, found = norm(conv(images)), normalised(conv, norm, images)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    sources = (images, conv.weight, norm.weight, norm.bias)
    weights = torch.rand(expected.shape, generator=rng.generator(2, "weights"), dtype=torch.float64)
    for ours, theirs in zip(
        torch.autograd.grad((found * weights).sum(), sources),
        torch.autograd.grad((expected * weights).sum(), sources),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_in_training_mode_the_batch_is_normalised_and_remembered() -> None:
    conv, norm = layers()
    assert norm.running_mean is not None
    before = norm.running_mean.clone()
    out = normalised(conv, norm, IMAGES)
    torch.testing.assert_close(out.mean((0, 2, 3)), norm.bias, rtol=1e-9, atol=1e-9)
    assert not torch.allclose(norm.running_mean, before)


def test_without_running_statistics_each_batch_is_normalised_by_its_own() -> None:
    conv, _ = layers()
    norm = nn.BatchNorm2d(5, track_running_stats=False).double().eval()
    torch.testing.assert_close(normalised(conv, norm, IMAGES), norm(conv(IMAGES)))


@pytest.mark.parametrize("training", [True, False])
def test_the_shortcut_is_its_two_layers(training: bool) -> None:
    shortcut = Projection(3, 5, 2).double().train(training)
    conv, norm = shortcut
    torch.testing.assert_close(shortcut(IMAGES), norm(conv(IMAGES)))
