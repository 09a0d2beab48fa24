"""DiffPure on Gaussians, where the reverse process has known means and spreads."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from alu.errors import UsageError
from alu.purifiers import DiffPure
from alu.purifiers.diffpure import level_at
from tests.conftest import smooth_images
from tests.unit.test_purifiers_adp import Gaussian


def test_the_noise_at_a_time_is_the_authors() -> None:
    # Rates from 0.1 to 20: at 0.1 their integral is 0.1095, signal exp(-0.05475), noise sqrt(1 - exp(-0.1095)).
    signal, noise = math.exp(-0.05475), math.sqrt(1 - math.exp(-0.1095))
    assert level_at(0.1) == pytest.approx(0.5 * noise / signal)
    assert level_at(0.1) == pytest.approx(0.170, abs=5e-4)
    assert level_at(0.0) == 0.0


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_where_all_images_are_one_every_number_of_steps_finds_it(steps: int) -> None:
    images = smooth_images(2)
    purified = DiffPure(Gaussian(mean=0.4, variance=0.0), steps=steps)(images)
    torch.testing.assert_close(purified, torch.full_like(images, 0.4))


class Counted(nn.Module):
    """The exact denoiser of one image, which notes how noisy what it is given is beside what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[float, float]] = []

    def denoise(self, images: Tensor, level: Tensor | None) -> Tensor:
        assert level is not None
        self.seen.append((float(images.sub(0.5).std()), float(level[0])))
        return torch.full_like(images, 0.5)


def test_on_the_way_the_noise_is_what_the_network_is_told() -> None:
    network = Counted()
    DiffPure(network, steps=6)(torch.full((1, 1, 150, 150), 0.5))
    told = [level for _, level in network.seen]
    assert told == pytest.approx([level_at(0.1 * (1 - place / 6)) for place in range(6)])
    assert [spread for spread, _ in network.seen] == pytest.approx(told, rel=0.03)


def test_the_reverse_process_draws_from_the_images_that_the_noisy_one_may_have_been() -> None:
    images = torch.full((1, 1, 150, 150), 0.55).double()
    purifier = DiffPure(Gaussian(mean=0.45, variance=0.002), steps=300)
    noisy = images + purifier.level * purifier.noise(images, "start")
    kept = 0.002 / (0.002 + purifier.level**2)
    mean, spread = 0.45 + kept * (noisy - 0.45), math.sqrt(kept) * purifier.level
    away = purifier(images) - mean
    assert float(away.std()) == pytest.approx(spread, rel=0.03)
    assert abs(float(away.mean())) < 4 * spread / 150
    assert abs(float((away * (noisy - noisy.mean())).mean())) < 0.03 * spread * purifier.level, "nothing is left of it"


def test_another_seed_is_another_draw() -> None:
    images = smooth_images(2)
    first, second = (DiffPure(Gaussian(), steps=3, seed=seed)(images) for seed in (0, 1))
    assert not torch.allclose(first, second)


@pytest.mark.parametrize("settings", [{"time": 0.0}, {"time": 1.5}, {"steps": 0}])
def test_impossible_settings_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="DiffPure needs"):
        DiffPure(Gaussian(), **settings)  # type: ignore[arg-type]
