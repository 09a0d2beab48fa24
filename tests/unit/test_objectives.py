"""Adversarial and purified objectives against values worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from alu.rng import generator
from alu.training.adversarial import (
    AdversarialObjective,
    AdversarialTraining,
    Friendly,
    Gairat,
    Mart,
    Trades,
    cross_entropy,
    divergence,
)
from alu.training.batches import Batch, Draws
from alu.training.objectives import Consistency

EPS = 8 / 255


class Brightness(nn.Module):
    """Logits (s, -s) with s = gain * (mean pixel - 0.5): every gradient and every optimum is known."""

    def __init__(self, gain: float = 10.0) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(gain))

    def forward(self, images: Tensor) -> Tensor:
        value = self.gain * (images.flatten(1).mean(1) - 0.5)
        return torch.stack([value, -value], 1)


def batch(*means: float, labels: tuple[int, ...] | None = None) -> Batch:
    images = torch.stack([torch.full((1, 4, 4), mean) for mean in means])
    wanted = torch.tensor(labels if labels is not None else [int(mean < 0.5) for mean in means])
    return Batch(images, wanted, Draws(generator(0, "test"), slice(0, len(means)), len(means)))


def entropy(value: float) -> float:
    """Cross-entropy of class 0 at logits (value, -value)."""
    return math.log1p(math.exp(-2 * value))


@pytest.mark.parametrize("steps", [1, 7])
def test_the_search_reaches_the_corner_of_the_ball(steps: int) -> None:
    objective = AdversarialTraining(steps=steps, step_size=2 * EPS / steps if steps > 1 else 2 * EPS)
    given = batch(0.7, 0.3)
    found = objective.search(Brightness(), given, cross_entropy(given.labels))
    expected = given.images + EPS * torch.tensor([-1.0, 1.0]).view(-1, 1, 1, 1)
    torch.testing.assert_close(found.images, expected)


def test_adversarial_training_by_hand() -> None:
    loss, _ = AdversarialTraining(steps=1, step_size=2 * EPS).loss(Brightness(), batch(0.7, 0.3))
    assert float(loss.detach()) == pytest.approx(entropy(10 * (0.2 - EPS)), rel=1e-5)


def test_catastrophic_overfitting_is_said() -> None:
    objective = AdversarialTraining(steps=1)
    assert objective.concern({"robust_accuracy": 0.40, "one_step_accuracy": 0.45}) == ""
    said = objective.concern({"robust_accuracy": 0.16, "one_step_accuracy": 0.42})
    assert said.startswith("This training overfits catastrophically: held-out accuracy is 42 % under one step and 16 %")
    assert AdversarialTraining(steps=10).concern({"robust_accuracy": 0.1}) == "", "with more steps nothing is compared"


def test_one_step_is_measured_beside_ten_where_training_takes_one() -> None:
    given = batch(0.5 + 0.6 * EPS, 0.9, labels=(0, 0))
    found = AdversarialTraining(steps=1).measure(Brightness(), given.images, given.labels)
    assert {name: value.tolist() for name, value in found.items()} == {
        "robust_accuracy": [0.0, 1.0], "accuracy": [1.0, 1.0], "one_step_accuracy": [0.0, 1.0],
    }  # fmt: skip
    assert "one_step_accuracy" not in AdversarialTraining(steps=5).measure(Brightness(), given.images, given.labels)


def test_trades_by_hand() -> None:
    loss, _ = Trades(beta=6.0, steps=10, step_size=EPS / 4).loss(Brightness(), batch(0.7))
    clean, attacked = 10 * 0.2, 10 * (0.2 - EPS)

    def probability(value: float) -> float:
        return 1 / (1 + math.exp(-2 * value))

    p, q = probability(clean), probability(attacked)
    apart = p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))
    assert float(loss.detach()) == pytest.approx(entropy(clean) + 6 * apart, rel=1e-4)


def test_mart_by_hand() -> None:
    loss, _ = Mart(weight=5.0, steps=4, step_size=EPS).loss(Brightness(), batch(0.7))
    clean, attacked = 10 * 0.2, 10 * (0.2 - EPS)
    p, q = 1 / (1 + math.exp(-2 * clean)), 1 / (1 + math.exp(-2 * attacked))
    boosted = -math.log(q) - math.log(1.0001 - (1 - q))
    apart = p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))
    assert float(loss.detach()) == pytest.approx(boosted + 5 * apart * (1 - p), rel=1e-4)


def test_the_first_mistake_is_counted() -> None:
    objective = Gairat(steps=10, step_size=EPS / 4, start=0.0)
    # Wrong at once; wrong after 3 steps of eps/4 (0.5 + 0.6 eps is passed then); never wrong.
    given = batch(0.4, 0.5 + 0.6 * EPS, 0.9, labels=(0, 0, 0))
    found = objective.search(Brightness(), given, cross_entropy(given.labels))
    assert found.first_mistake.tolist() == [0, 3, 10]


def test_gairat_weights_by_hand() -> None:
    weights = Gairat(steps=10).weights(torch.tensor([0, 5, 10]))
    raw = [(1 + math.tanh(5 * (1 - 2 * k / 10))) / 2 for k in (0, 5, 10)]
    assert weights.tolist() == pytest.approx([3 * w / sum(raw) for w in raw], rel=1e-3)


def test_gairat_by_hand() -> None:
    given = batch(0.4, 0.5 + 0.6 * EPS, 0.9, labels=(0, 0, 0))
    # Mistaken at once, after three steps of eps/4, never; all end eps lower. During the warm-up all weigh the same.
    each = [entropy(10 * (mean - EPS - 0.5)) for mean in (0.4, 0.5 + 0.6 * EPS, 0.9)]
    raw = [(1 + math.tanh(5 * (1 - 2 * steps / 10))) / 2 for steps in (0, 3, 10)]
    for done, weights in ((0.2, [1 / 3] * 3), (0.8, [weight / sum(raw) for weight in raw])):
        given.done = done
        loss, _ = Gairat(steps=10, step_size=EPS / 4, start=0.0).loss(Brightness(), given)
        wanted = sum(weight * value for weight, value in zip(weights, each, strict=True))
        assert float(loss.detach()) == pytest.approx(wanted, rel=1e-4)


def test_fat_by_hand() -> None:
    given = batch(0.5 + 0.6 * EPS, 0.9, labels=(0, 0))
    given.done = 0.3  # of the patience that grows from 0 to 3: one step
    loss, _ = Friendly(steps=10, step_size=EPS / 4, start=0.0).loss(Brightness(), given)
    wanted = (entropy(10 * (0.6 * EPS - EPS)) + entropy(10 * (0.4 - EPS))) / 2
    assert float(loss.detach()) == pytest.approx(wanted, rel=1e-4)


def test_fat_grows_patient() -> None:
    objective = Friendly(patience=3)
    assert [objective.patience_at(done) for done in (0.0, 0.24, 0.25, 0.5, 0.75, 1.0)] == [0, 0, 1, 2, 3, 3]


def test_friendly_images_stop_after_the_first_mistake() -> None:
    given = batch(0.5 + 0.6 * EPS, labels=(0,))
    steps = {}
    for patience in (0, 1):
        found = Friendly(patience=patience, steps=10, step_size=EPS / 4, start=0.0).search(
            Brightness(), given, cross_entropy(given.labels), patience
        )
        steps[patience] = float((given.images - found.images).mean() / (EPS / 4))
    assert steps[0] == pytest.approx(3, abs=1e-3), "mistaken after three steps, and stopped there"
    assert steps[1] == pytest.approx(4, abs=1e-3), "one step more"


def test_divergence_is_zero_for_equal_logits_and_positive_otherwise() -> None:
    logits = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    assert divergence(logits, logits).abs().max() < 1e-6
    assert (divergence(logits, logits.flip(1)) > 0).all()


@pytest.mark.parametrize("objective", [AdversarialTraining(), Trades(), Friendly(), Gairat(), Mart()])
def test_images_stay_in_the_ball_and_the_loss_has_a_gradient(objective: AdversarialObjective) -> None:
    model = Brightness()
    given = batch(0.99, 0.01, 0.5)
    found = objective.search(model, given, cross_entropy(given.labels))
    assert float((found.images - given.images).abs().max()) <= EPS + 1e-6
    assert 0 <= float(found.images.min()) <= float(found.images.max()) <= 1
    loss, _ = objective.loss(model, given)
    (gradient,) = torch.autograd.grad(loss, model.gain)
    assert torch.isfinite(gradient)
    assert float(gradient.abs()) > 0


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
