"""Draws: a defence averages the logits of as many seeds as its purifier has draws."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from alu import Defense
from alu.attacks.copies import redrawn
from alu.purifiers import Blur, Chain, Purifier, Traits
from alu.rng import normal_per_image
from tests.conftest import SmoothClassifier, smooth_images


class Noisy(Purifier):
    """Adds noise that follows the image and the seed."""

    def __init__(self, draws: int = 1, seed: int = 0) -> None:
        super().__init__()
        self.draws, self.seed = draws, seed

    @property
    def traits(self) -> Traits:
        return Traits(stochastic=True)

    def run(self, images: Tensor) -> Tensor:
        return images + 0.05 * normal_per_image(images, tuple(images.shape[1:]), self.seed, "noisy")


@torch.no_grad()
def test_a_defence_averages_the_logits_of_all_draws() -> None:
    images, classifier = smooth_images(3), SmoothClassifier().double()
    output = Noisy(draws=3).purify(images)
    draws = [output.purified, *output.others]
    assert len(draws) == 3
    assert all(not torch.equal(draws[0], other) for other in draws[1:])
    assert not torch.equal(draws[1], draws[2])
    expected = (classifier(draws[0]) + classifier(draws[1]) + classifier(draws[2])) / 3
    evidence = Defense(classifier, Noisy(draws=3), rule="purified").evidence(images)
    torch.testing.assert_close(evidence.post_logits, expected)
    assert torch.equal(evidence.purified, draws[0])
    apart = classifier(draws[0]) - expected
    assert float(apart.abs().max()) > 1e-3, "one draw is not the mean"


def test_called_by_itself_a_purifier_gives_its_first_draw() -> None:
    images = smooth_images(2)
    assert torch.equal(Noisy(draws=4)(images), Noisy()(images))


def test_draws_do_not_depend_on_the_batch_and_another_seed_has_others() -> None:
    images = smooth_images(4)
    classifier = SmoothClassifier().double()
    defense = Defense(classifier, Noisy(draws=3), rule="purified")
    whole = defense.decide(images).post_logits
    torch.testing.assert_close(defense.decide(images.flip(0), batch_size=1).post_logits.flip(0), whole)
    other = redrawn(defense, 1).decide(images).post_logits
    assert float((other - whole).abs().max()) > 1e-3
    assert torch.equal(redrawn(defense, 0).decide(images).post_logits, whole)


@pytest.mark.parametrize("grad_mode", ["bpda", "unrolled"])
@pytest.mark.parametrize("chained", [False, True])
def test_the_gradient_is_the_mean_over_draws(grad_mode: str, chained: bool) -> None:
    classifier, images = SmoothClassifier().double(), smooth_images(2)
    many: Purifier = Noisy(draws=2)
    if chained:
        many = Chain(Blur(0.5), many)
    at = images.clone().requires_grad_(True)
    defense = Defense(classifier, many, rule="purified", grad_mode=grad_mode)
    (whole,) = torch.autograd.grad(defense(at)[:, 0].sum(), at)
    each = []
    for draw in (many.purify(images).purified, *many.purify(images).others):
        place = draw.clone().requires_grad_(True)
        (slope,) = torch.autograd.grad(classifier(place)[:, 0].sum(), place)
        each.append(slope)
    assert len(each) == 2
    expected = (each[0] + each[1]) / 2
    if chained and grad_mode == "unrolled":
        through = images.clone().requires_grad_(True)
        (expected,) = torch.autograd.grad(Blur(0.5)(through), through, expected)
    torch.testing.assert_close(whole, expected)
