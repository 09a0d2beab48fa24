"""Score matching and the learning of an energy on networks whose answers are known."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from alu import models
from alu.errors import UsageError
from alu.models.energy import Energy
from alu.rng import generator
from alu.training.batches import Batch, Draws
from alu.training.generative import EnergyLearning, ScoreMatching
from alu.training.loop import Run, train
from alu.training.recipes import seeded
from alu.training.settings import Settings
from tests.contracts.parts import awake
from tests.toys import Killed, Toy, toy_data


def even(count: int, side: int = 16) -> Batch:
    """Gray images."""
    images = torch.full((count, 3, side, side), 0.5)
    return Batch(images, torch.zeros(count, dtype=torch.int64), Draws(generator(0, "test"), slice(0, count), count))


class Known(nn.Module):
    """A denoiser that goes `share` of the way to gray, and remembers what it was told."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share
        self.told: list[float] = []
        self.spread: list[float] = []
        self.blind = 0

    def denoise(self, noisy: Tensor, level: Tensor | None) -> Tensor:
        if level is None:
            self.blind += len(noisy)
        else:
            self.told += level.tolist()
            self.spread += (noisy - 0.5).flatten(1).std(1).tolist()
        return noisy + self.share * (0.5 - noisy)


def test_the_error_of_a_denoiser_that_goes_half_the_way() -> None:
    for share in (0.0, 0.5, 1.0):
        loss, parts = ScoreMatching().loss(Known(share), even(64))
        assert float(loss) == pytest.approx((1 - share) ** 2, rel=0.02), "noise has mean square 1"
        assert set(parts) == {"told", "untold"}


def test_levels_are_even_in_their_logarithm_and_a_quarter_is_not_told() -> None:
    network = Known(0.5)
    ScoreMatching(lowest=0.02, highest=0.5, untold=0.25).loss(network, even(400))
    assert network.blind == 100
    assert len(network.told) == 300
    logs = torch.tensor(network.told).log()
    assert math.log(0.02) <= float(logs.min()) <= math.log(0.022)
    assert math.log(0.45) <= float(logs.max()) <= math.log(0.5)
    assert float(logs.mean()) == pytest.approx(0.5 * math.log(0.02 * 0.5), abs=0.15)
    torch.testing.assert_close(torch.tensor(network.spread), torch.tensor(network.told), rtol=0.1, atol=0)


def test_all_are_told_where_none_is_to_be_blind() -> None:
    network = Known(1.0)
    loss, parts = ScoreMatching(untold=0.0).loss(network, even(8))
    assert network.blind == 0
    assert set(parts) == {"told"}
    assert float(loss) == pytest.approx(0.0, abs=1e-9)


def test_held_out_errors_use_the_same_noise_each_time() -> None:
    images = even(6).images
    found, again = (ScoreMatching().measure(Known(0.5), images, torch.zeros(6)) for _ in range(2))
    assert list(found) == ["told", "untold"]
    assert torch.equal(found["told"], again["told"])
    assert float(found["told"].mean()) == pytest.approx(0.25, rel=0.05)


def energy(bank: int = 8, side: int = 16) -> Energy:
    network = seeded(lambda: models.energy(width=8, step=0.05, bank=bank, size=side), 0)
    assert isinstance(network, Energy)
    network.bank.fill_(0.25)
    return network


def test_a_batch_of_the_bank_is_moved_and_kept_and_the_rest_stays() -> None:
    network = energy()
    with torch.no_grad():
        network.last.weight.zero_()  # without a slope the dynamics is noise alone
    learning = EnergyLearning(Toy(), steps=9, fresh=0.0)
    moved = learning.moved(network, even(5))
    away = (moved - 0.25).flatten()
    assert float(away.std()) == pytest.approx(0.05 * 3, rel=0.05)
    rows = network.bank.flatten(1).std(1) > 0
    assert int(rows.sum()) == 5
    kept = {tuple(row.flatten()[:4].tolist()) for row in network.bank[rows]}
    assert kept == {tuple(row.flatten()[:4].tolist()) for row in moved}
    assert not moved.requires_grad


def test_some_chains_begin_again_at_images() -> None:
    network = energy()
    moved = EnergyLearning(Toy(), steps=0, fresh=1.0).moved(network, even(5))
    assert torch.equal(moved, even(5).images)


def test_energy_falls_on_images_and_rises_on_chains() -> None:
    network = awake(energy())
    assert isinstance(network, Energy)
    learning = EnergyLearning(Toy(), steps=2, bound=0.0)
    given = even(5)
    loss, parts = learning.loss(network, given)
    assert float(loss.detach()) == pytest.approx(float(parts["gap"].detach()) * 0.5 * 0.05**2, rel=1e-4)
    chains = network.bank[network.bank.flatten(1).std(1) > 0].clone()
    loss.backward()
    before = [float(network(seen).mean().detach()) for seen in (given.images, chains)]
    with torch.no_grad():
        for weight in network.parameters():
            weight.sub_(1e-3 * weight.grad)  # type: ignore[arg-type]
    after = [float(network(seen).mean().detach()) for seen in (given.images, chains)]
    assert (after[0] - after[1]) < (before[0] - before[1])
    assert network.bank.grad is None


def test_a_bank_that_is_too_small_is_refused() -> None:
    with pytest.raises(UsageError, match="bank holds 3 images, fewer than a batch of 5. Train it with a smaller"):
        EnergyLearning(Toy()).moved(energy(bank=3), even(5))


def test_what_is_published_has_no_bank_and_the_same_energies() -> None:
    network = energy().eval()
    images = even(3).images
    small = network.published()
    assert small.architecture == {**network.architecture, "bank": 0}  # type: ignore[dict-item]
    assert len(small.bank) == 0
    torch.testing.assert_close(small(images), network(images))


def test_an_interrupted_run_goes_on_with_its_chains(tmp_path: Path) -> None:
    def run(folder: Path) -> Run:
        settings = Settings(epochs=2, batch_size=4, optimizer="adam", lr=1e-3)
        learning = EnergyLearning(Toy(), steps=2, measured_on=2)
        return Run(energy(bank=6, side=8), learning, toy_data(12), toy_data(4), settings, folder)

    def die(done: int, total: int, _: dict[str, float]) -> None:
        if done == 3:
            raise Killed

    whole = run(tmp_path / "whole")
    train(whole)
    with pytest.raises(Killed):
        train(run(tmp_path / "cut"), die)
    resumed = run(tmp_path / "cut")
    train(resumed)
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, resumed.model.state_dict()[name]), name
