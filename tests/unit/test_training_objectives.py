"""Objectives on clean and on noisy images against values worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from alu.data import Dataset
from alu.rng import generator
from alu.training.batches import Batch, Draws
from alu.training.objectives import Autoencoding, Classification, Consistency, measured
from tests.toys import Brightness, batch, entropy


def test_held_out_images_are_of_all_classes_where_they_are_sorted() -> None:
    labels = torch.arange(4).repeat_interleave(25)
    data = Dataset(torch.zeros((100, 3, 4, 4), dtype=torch.uint8), labels, ("a", "b", "c", "d"), "sorted")

    class Seen(Classification):
        measured_on = 20

        def measure(self, model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
            return {f"class {number}": (labels == number).float() for number in range(4)}

    found = measured(Seen(), nn.Identity(), data, torch.device("cpu"))
    assert sum(found.values()) == pytest.approx(1.0)
    assert min(found.values()) > 0


class Fixed(nn.Module):
    """A VAE whose answers are known: mean 1, log-variance 0.5, and it decodes to 0.25."""

    def encode(self, images: Tensor) -> tuple[Tensor, Tensor]:
        code = torch.ones(len(images), 2, 1, 1)
        return code, 0.5 * code

    def decode(self, code: Tensor) -> Tensor:
        return torch.full((len(code), 1, 2, 2), 0.25)


def test_the_bound_by_hand() -> None:
    batch = Batch(torch.full((3, 1, 2, 2), 0.5), torch.zeros(3), Draws(generator(0, "x"), slice(0, 3), 3))
    loss, parts = Autoencoding(sigma=0.5).loss(Fixed(), batch)
    error = 4 * 0.25**2 / (2 * 0.5**2)
    divergence = 2 * 0.5 * (1.0 + math.exp(0.5) - 1.0 - 0.5)
    assert float(loss) == pytest.approx(error + divergence, rel=1e-6)
    assert float(parts["rmse"]) == pytest.approx(0.25, rel=1e-6)


def test_cross_entropy_by_hand() -> None:
    class Logits(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return torch.tensor([[2.0, 0.0], [0.0, 1.0]])

    batch = Batch(torch.zeros(2, 3, 4, 4), torch.tensor([0, 0]), Draws(generator(0, "x"), slice(0, 2), 2))
    loss, parts = Classification().loss(Logits(), batch)
    assert float(loss) == pytest.approx((math.log(1 + math.exp(-2)) + math.log(1 + math.exp(1))) / 2, rel=1e-6)
    assert float(parts["accuracy"]) == 0.5


def test_consistency_by_hand() -> None:
    """Without noise the copies agree and only cross-entropy and entropy are left; noise adds the disagreement."""
    given = batch(0.6, 0.8)
    still, parts = Consistency(sigma=0.0, weight=10.0, entropy=0.5).loss(Brightness(), given)
    values = [10 * 0.1, 10 * 0.3]
    chances = [1 / (1 + math.exp(-2 * value)) for value in values]
    spread = [-(p * math.log(p) + (1 - p) * math.log(1 - p)) for p in chances]
    expected = sum(map(entropy, values)) / 2 + 0.5 * sum(spread) / 2
    assert float(still.detach()) == pytest.approx(expected, rel=1e-5)
    assert float(parts["divergence"].detach()) == pytest.approx(0.0, abs=1e-6)


def test_consistency_is_the_distance_of_each_copy_to_their_mean() -> None:
    class Given(nn.Module):
        """One image, two copies, whose class probabilities are (0.9, 0.1) and (0.5, 0.5)."""

        def forward(self, images: Tensor) -> Tensor:
            return torch.tensor([[0.9, 0.1], [0.5, 0.5]]).log()

    loss, parts = Consistency(weight=2.0, entropy=0.5).loss(Given(), batch(0.6))
    mean = (0.7, 0.3)
    apart = [sum(m * math.log(m / p) for m, p in zip(mean, copy, strict=True)) for copy in ((0.9, 0.1), (0.5, 0.5))]
    assert float(parts["divergence"]) == pytest.approx(sum(apart) / 2, rel=1e-5)
    plain = -(math.log(0.9) + math.log(0.5)) / 2
    spread = -sum(m * math.log(m) for m in mean)
    assert float(loss) == pytest.approx(plain + 2.0 * sum(apart) / 2 + 0.5 * spread, rel=1e-5)


def test_accuracy_under_noise_is_measured_with_the_same_draws_each_time() -> None:
    given = batch(0.52, 0.95, labels=(0, 0))
    objective = Consistency(sigma=0.5, draws=20)
    found, again = (objective.measure(Brightness(), given.images, given.labels) for _ in range(2))
    assert all(torch.equal(found[name], again[name]) for name in found)
    assert 0.3 < float(found["noisy_accuracy"][0]) < 0.9 < float(found["noisy_accuracy"][1])
    assert float(found["right_in_every_draw"][0]) == 0.0
    assert found["accuracy"].tolist() == [1.0, 1.0]
