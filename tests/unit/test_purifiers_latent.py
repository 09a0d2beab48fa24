"""LatentVAE: its stand-in gradient, and where its descent goes."""

from __future__ import annotations

import torch

from alu.purifiers import LatentVAE
from tests.conftest import smooth_images
from tests.toys import purified_logit, relative_error, tiny_vae, toy_images, toy_vae


def test_surrogate_is_not_exact_after_steps() -> None:
    # The check itself can tell a wrong gradient from a right one.
    purifier = LatentVAE(tiny_vae(), steps=6, lr=0.02, solver="gd", schedule="constant")
    assert relative_error(purified_logit(purifier, "surrogate"), smooth_images(2)) > 1e-3


def test_surrogate_is_exact_without_steps() -> None:
    purifier = LatentVAE(tiny_vae(), steps=0)
    assert relative_error(purified_logit(purifier, "surrogate"), smooth_images(2)) <= 1e-6
    assert relative_error(purified_logit(purifier, "unrolled"), smooth_images(2)) <= 1e-6


def test_the_last_station_is_the_purified_image() -> None:
    purifier, images = toy_vae(steps=4), toy_images(3)
    path = purifier.trajectory(images, 2)
    assert len(path) == 2
    torch.testing.assert_close(path[-1], purifier(images))
    assert not torch.equal(path[0], path[1])
