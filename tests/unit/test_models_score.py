"""The score network: the level it is told matters, beyond its levels that is the nearest, untrained it does nothing."""

from __future__ import annotations

import torch

from alu import models
from alu.models.score import LEVELS, UNTOLD, Score
from alu.training.recipes import seeded
from tests.contracts.parts import awake, images_like, small_score

SHAPE = (3, 16, 16)


def test_untrained_it_takes_no_noise_away() -> None:
    network = seeded(lambda: models.score(width=8), 0)
    images = images_like(2, SHAPE)
    with torch.no_grad():
        network.last.bias.zero_()  # type: ignore[union-attr, operator]
        assert torch.equal(network(images), images)


@torch.no_grad()
def test_the_level_changes_what_is_taken_away_and_scales_it() -> None:
    network, images = small_score(SHAPE), images_like(1, SHAPE)
    assert isinstance(network, Score)

    def taken(level: float | None) -> torch.Tensor:
        return images - network.denoise(images, None if level is None else torch.tensor([level]))

    low, high = taken(0.05) / 0.05, taken(0.2) / 0.2
    assert not torch.allclose(low, high, rtol=0.01), "it is told the level, not only scaled by it"
    assert not torch.allclose(taken(None) / UNTOLD, high, rtol=0.01)
    # Beyond its levels it is told the nearest, and the noise that it takes away grows on.
    torch.testing.assert_close(taken(2.0) / 2.0, taken(LEVELS[1]) / LEVELS[1])
    torch.testing.assert_close(taken(1e-3) / 1e-3, taken(LEVELS[0]) / LEVELS[0], rtol=1e-3, atol=1e-3)


@torch.no_grad()
def test_each_image_has_its_own_level() -> None:
    network = awake(seeded(lambda: models.score(width=8), 1))
    assert isinstance(network, Score)
    images, levels = images_like(3, SHAPE), torch.tensor([0.03, 0.1, 0.4])
    single = [network.denoise(images[at : at + 1], levels[at : at + 1]) for at in range(3)]
    torch.testing.assert_close(network.denoise(images, levels), torch.cat(single))
