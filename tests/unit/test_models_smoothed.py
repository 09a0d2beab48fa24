"""Randomised smoothing: radii of a linear classifier are known, and what is promised is kept."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from scipy.stats import beta
from torch import Tensor, nn

import alu
from alu.attacks.copies import redrawn
from alu.evaluation.evaluate import prepare
from alu.evaluation.obligations import unmet
from alu.models import Smoothed
from alu.models.smoothed import looks
from alu.stats import binomial_lower
from tests.linear import Linear, linear_data
from tests.toys import Toy, toy_data, toy_images


@pytest.mark.parametrize("n", [1, 10, 1_000, 100_000])
@pytest.mark.parametrize("alpha", [0.05, 0.001, 1e-6])
def test_clopper_pearson_agrees_with_scipy(n: int, alpha: float) -> None:
    for successes in {0, 1, n // 3, n // 2, 9 * n // 10, n - 1, n}:
        expected = beta.ppf(alpha, successes, n - successes + 1) if successes else 0.0
        assert binomial_lower(successes, n, alpha) == pytest.approx(expected, abs=1e-9)


def l2_distance(data: Any) -> Tensor:
    direction: Tensor = Linear().direction  # type: ignore[assignment]
    away: Tensor = ((data.images.flatten(1) - 0.5) @ direction).abs() / direction.norm()
    return away


def test_the_radius_of_a_linear_classifier_is_its_distance() -> None:
    data = linear_data(12)
    labels, radii = Smoothed(Linear(), sigma=0.25).certify(data.images, n=20_000)
    exact = l2_distance(data)
    known = labels >= 0
    assert torch.equal(labels[known], data.own[known])
    assert bool((exact[~known] < 0.02).all()), "no answer only next to the boundary"
    gap = exact[known] - radii[known]
    assert bool((gap > 0).all()), "never more than is true"
    assert float(gap.max()) < 0.05


def test_stopping_early_answers_the_same_question() -> None:
    data, smoothed = linear_data(24), Smoothed(Linear(), sigma=0.25)
    exact = l2_distance(data)
    found = smoothed.certify(data.images, n=10_000, radius=0.1)
    clear = (exact - 0.1).abs() > 0.02
    assert int(clear.sum()) > 12
    assert torch.equal((found.labels >= 0)[clear], (exact > 0.1)[clear])
    assert bool((found.radii[found.labels >= 0] >= 0.1).all())
    assert bool((found.radii <= exact).all())
    assert float(found.samples.median()) <= 1_000 < int(found.samples.max())


def test_looks_spend_alpha_once() -> None:
    for n in (20, 100, 10_000, 1_000_000):
        parts = list(looks(n, 0.001))
        assert parts[-1][0] == n
        assert [count for count, _ in parts] == sorted({count for count, _ in parts})
        assert sum(spent for _, spent in parts) == pytest.approx(0.001)


class Coin(nn.Module):
    """Class 0 on a half space of the noise that has this probability, whatever the image is."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.edge = torch.distributions.Normal(0.5, 0.25).icdf(torch.tensor(share))

    def forward(self, images: Tensor) -> Tensor:
        below = (images[:, 0, 0, 0] < self.edge).float()
        return torch.stack([below, 1 - below], 1)


def test_a_certificate_is_wrong_no_more_often_than_alpha() -> None:
    # True radius: 0.25 * 0.6745 = 0.1686 at a share of 75 %. Asked for slightly more, with a generous alpha.
    images = torch.full((400, 1, 1, 1), 0.5) + torch.arange(400).view(-1, 1, 1, 1) * 1e-7
    found = Smoothed(Coin(0.75), sigma=0.25).certify(images, n=1_000, alpha=0.1, radius=0.1690)
    assert int((found.labels >= 0).sum()) <= 0.1 * 400
    whole = Smoothed(Coin(0.75), sigma=0.25).certify(images, n=500, alpha=0.1)
    wrong = int((whole.radii > 0.1687).sum())
    assert 0 < wrong <= 0.1 * 400 + 3 * 6, "sharp enough to be wrong sometimes, and not more often than promised"


def test_an_image_has_its_own_draws() -> None:
    smoothed, images = Smoothed(Toy(), sigma=0.3, draws=16), toy_images(6)
    torch.testing.assert_close(smoothed(images)[2:3], smoothed(images[2:3]), rtol=1e-4, atol=1e-5)
    one, other = (smoothed.certify(part, n=200).radii for part in (images, images[3:]))
    assert torch.equal(one[3:], other)
    state = torch.random.get_rng_state()
    smoothed.certify(images, n=100)
    assert torch.equal(state, torch.random.get_rng_state())
    assert not torch.equal(one, Smoothed(Toy(), sigma=0.3, seed=1).certify(images, n=200).radii)


def test_how_many_copies_are_classified_together_changes_nothing() -> None:
    # One pixel: there torch's numbers depend on how many are drawn at once.
    images = torch.linspace(0.3, 0.7, 5).view(-1, 1, 1, 1)
    smoothed = Smoothed(Coin(0.75), sigma=0.25)
    one, other, default = (smoothed.certify(images, n=700, batch_size=size).radii for size in (7, 500, None))
    assert torch.equal(one, other)
    assert torch.equal(one, default)
    assert float(one.max()) > 0


def test_as_a_module_it_is_the_mean_probability() -> None:
    model, images = Toy(), toy_images(3)
    mean = Smoothed(model, sigma=1e-6, draws=4)(images)
    torch.testing.assert_close(mean, model(images).log_softmax(1), rtol=1e-3, atol=1e-4)
    leaf = images.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(Smoothed(model, draws=4)(leaf).sum(), leaf)
    assert float(gradient.abs().max()) > 0


def test_a_defence_answers_only_what_is_proven() -> None:
    data = linear_data(24)
    smoothed = Smoothed(Linear(), sigma=0.25, draws=200)
    detector = alu.detectors.Certificate(radius=0.1, n=2_000)
    defense = alu.Defense(smoothed, detector=detector, rule="abstain")
    decision = defense.decide(data.images)
    exact = l2_distance(data)
    assert bool((exact[decision.accepted] > 0.1).all())
    assert int(decision.accepted.sum()) >= int((exact > 0.12).sum())
    assert torch.equal(decision.label[decision.accepted], data.own[decision.accepted])
    assert defense.traits.stochastic


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Smoothed(Toy(), sigma=0.0), "sigma above 0"),
        (lambda: Smoothed(Toy(), draws=0), "at least 1 draw"),
        (lambda: Smoothed(Toy()).certify(toy_images(1), n=0), "n and n0 of at least 1"),
        (lambda: Smoothed(Toy()).certify(toy_images(1), alpha=1.0), "alpha between 0 and 1"),
        (lambda: Smoothed(Toy()).certify(toy_images(1), n=100, radius=1.0), r"at most 0\.3\d\d, and 1 was asked for"),
        (lambda: Smoothed(Toy()).certify(toy_images(1), radius=-1.0), "radius above 0"),
        (lambda: alu.detectors.Certificate(radius=0), "radius above 0"),
        (
            lambda: alu.Defense(Toy(), detector=alu.detectors.Certificate(), rule="abstain").decide(toy_images(1)),
            "needs a smoothed classifier, and Toy is none",
        ),
        (
            lambda: alu.Defense(Smoothed(Toy()), alu.purifiers.Blur(), alu.detectors.Certificate(), "abstain"),
            "Certificate looks around the picture itself .* Leave the purifier out",
        ),
        (
            lambda: alu.Defense(Smoothed(Toy()), detector=alu.detectors.Certificate(1.0, n=100), rule="abstain").decide(
                toy_images(1)
            ),
            r"100 samples at sigma 0\.25 and alpha 0\.001 can prove a radius of at most 0\.3\d\d",
        ),
        (
            lambda: alu.attacks.PGD(steps=1)(Smoothed(lambda at: Toy()(at).detach()), toy_images(1), torch.tensor([0])),
            "gradient",
        ),
    ],
)
def test_bad_input_is_one_sentence(build: Any, words: str) -> None:
    with pytest.raises(alu.AluError, match=words):
        build()


def test_random_draws_are_announced_to_whoever_attacks() -> None:
    data = toy_data(8)
    evaluation = prepare(Smoothed(Toy(), sigma=0.3, draws=2), data, bare=False)
    assert evaluation.subject.declared.stochastic
    averaged = [entry.attack for entry in evaluation.attacks if "draws" in entry.meets]
    assert [getattr(attack, "draws", 1) for attack in averaged] == [10]
    without = prepare(Smoothed(Toy(), sigma=0.3, draws=2), data, suite="paper", bare=False)
    assert "no gradients averaged over random draws" in unmet(without.subject.traits, list(without.attacks))
    assert not torch.equal(
        redrawn(Smoothed(Toy(), sigma=0.3, draws=2), 1)(data.images), Smoothed(Toy(), sigma=0.3, draws=2)(data.images)
    ), "a copy with other random numbers answers with other noise"
