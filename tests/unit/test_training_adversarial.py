"""Adversarial objectives against values worked out by hand: losses, gradients, searches."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alu.training.adversarial import (
    AdversarialObjective,
    AdversarialTraining,
    Climb,
    Friendly,
    Gairat,
    Mart,
    Trades,
    cross_entropy,
    divergence,
)
from alu.training.awp import AWP
from alu.training.batches import Batch
from alu.training.objectives import Objective
from alu.training.recipes import seeded
from tests.toys import EPS, Brightness, batch, entropy


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


class Three(nn.Module):
    """Three classes on three pixels: logits are the pixels, times a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.tensor([4.0, 5.0, 6.0]))

    def forward(self, images: Tensor) -> Tensor:
        return self.gain * images.flatten(1)


def pixels() -> Batch:
    given = batch(0.5, 0.5)
    given.images = torch.tensor([[[[0.6, 0.5, 0.2]]], [[[0.1, 0.4, 0.5]]]])
    given.labels = torch.tensor([0, 2])
    return given


def slope_of(objective: AdversarialObjective) -> Tensor:
    model = Three()
    loss, _ = objective.loss(model, pixels())
    (found,) = torch.autograd.grad(loss, model.gain)
    return found


def by_hand(objective: AdversarialObjective, value: Any) -> Tensor:
    """The gradient of an own formula, on the images that the objective finds."""
    model, given = Three(), pixels()
    found = objective.attack(model, given)
    loss = value(model(found.images), model(given.images), given.labels)
    (slope,) = torch.autograd.grad(loss, model.gain)
    return slope


def test_the_gradient_of_trades_goes_through_both_answers() -> None:
    objective = Trades(beta=3.0, steps=2, step_size=EPS / 2)

    def value(attacked: Tensor, clean: Tensor, labels: Tensor) -> Tensor:
        p, q = clean.softmax(1), attacked.softmax(1)
        return F.cross_entropy(clean, labels) + 3.0 * (p * (p.log() - q.log())).sum(1).mean()

    torch.testing.assert_close(slope_of(objective), by_hand(objective, value))


def test_the_gradient_of_mart_by_hand_on_three_classes() -> None:
    objective = Mart(weight=2.0, steps=2, step_size=EPS / 2)

    def value(attacked: Tensor, clean: Tensor, labels: Tensor) -> Tensor:
        p, q = clean.softmax(1), attacked.softmax(1)
        rows = torch.arange(2)
        strongest = torch.stack([q[row][[k for k in range(3) if k != int(labels[row])]].max() for row in rows])
        boosted = -q[rows, labels].log() - (1.0001 - strongest).log()
        apart = (p * (p.log() - q.log())).sum(1) * (1 - p[rows, labels])
        return (boosted + 2.0 * apart).mean()

    torch.testing.assert_close(slope_of(objective), by_hand(objective, value))


def test_the_surest_mistake_keeps_a_slope_in_mart() -> None:
    class Sure(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gain = nn.Parameter(torch.tensor(9.0))

        def forward(self, images: Tensor) -> Tensor:
            return torch.stack([-self.gain, self.gain]).expand(len(images), 2) + 0 * images.flatten(1)[:, :2]

    model, given = Sure(), batch(0.5, labels=(0,))
    boosted = Mart(steps=1).loss(model, given)[1]["boosted"]
    plain = F.cross_entropy(model(given.images), given.labels)
    (whole,), (part,) = torch.autograd.grad(boosted, model.gain), torch.autograd.grad(plain, model.gain)
    assert float(whole - part) > 1e-4


def test_trades_climbs_the_divergence_and_not_the_cross_entropy() -> None:
    # Wrong clean: away from the label is where cross-entropy leads, the divergence may lead back.
    model, apart = Three(), []
    for objective in (Trades(steps=4, step_size=EPS / 4), AdversarialTraining(steps=4, start=0.001 / EPS)):
        given = pixels()
        given.labels = torch.tensor([2, 0])
        found = objective.attack(model, given).images
        apart.append(float(divergence(model(given.images), model(found)).mean().detach()))
    assert apart[0] > 1.1 * apart[1]


def test_friendly_counts_mistakes_and_not_steps() -> None:
    """A model that is mistaken at the first step, right at the second, and mistaken from the third on."""

    class Schedule(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, images: Tensor) -> Tensor:
            wrong = self.calls != 1
            self.calls += 1
            value = images.flatten(1).sum(1)
            flat = value - value.detach()
            return torch.stack([flat + (0.0 if wrong else 1.0), 0 * value + (1.0 if wrong else 0.0)], 1)

    start = torch.full((1, 1, 1, 2), 0.2)
    found = Climb(1.0, 5, 0.1)(
        Schedule(), start, torch.tensor([0]), torch.zeros_like(start), lambda logits: logits[:, 0], patience=1
    )
    # Moves at step 0 (first mistake), 1 (right), and stops at 2, its second mistake.
    torch.testing.assert_close(found.images, start + 0.2)


class Normed(nn.Module):
    """Batch normalisation that counts whose statistics a search uses."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.last = nn.Linear(4, 2)

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.last(self.norm(images.flatten(1)))
        return out


@pytest.mark.parametrize(
    ("objective", "updates"),
    [
        (AdversarialTraining(steps=3), 4),
        (Trades(steps=3), 2),
        (Mart(steps=3), 2),
        (Friendly(steps=3), 1),
        (Gairat(steps=3), 1),
        (AWP(Trades(steps=3)), 4),
    ],
)
def test_whose_statistics_a_search_uses(objective: Objective, updates: int) -> None:
    model = seeded(Normed, 0).train()
    given = batch(0.5, 0.5)
    given.images, given.labels = torch.rand(6, 1, 2, 2), torch.tensor([0, 1] * 3)
    given.draws.rows, given.draws.total = slice(0, 6), 6
    objective.loss(model, given)
    assert int(model.norm.num_batches_tracked) == updates  # type: ignore[arg-type]
    assert model.training
    assert model.norm.training
