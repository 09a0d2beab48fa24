"""flatten: on a mixture of two linear classifiers the best attack is known; it reaches that, others stop short."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from alu import Defense
from alu.attacks import CWLinf, Flatten, fooled
from alu.detectors import Neighbourhood
from alu.errors import UsageError
from alu.models import Mixed
from alu.rng import generator
from tests.toys import Toy, toy_images

SHAPE = (1, 8, 8)
HALF = 32
EPS = 8 / 255


class Half(nn.Module):
    """Reads one half of the pixels: three logits, of which the first two differ by 2 direction · (x - 1/2)."""

    direction: Tensor

    def __init__(self, name: str, scale: float) -> None:
        super().__init__()
        direction = torch.zeros(2 * HALF)
        place = slice(0, HALF) if name == "standard" else slice(HALF, 2 * HALF)
        direction[place] = scale * torch.randn(HALF, generator=generator(0, name))
        self.register_buffer("direction", direction)
        self.anchor = nn.Parameter(torch.zeros(()), requires_grad=False)

    def forward(self, images: Tensor) -> Tensor:
        """The logits."""
        ahead = (images.flatten(1) - 0.5) @ self.direction
        return torch.stack([ahead, -ahead, torch.full_like(ahead, -2.0)], 1)


def mixture() -> Mixed:
    return Mixed(Half("standard", 4.0), Half("robust", 0.6), alpha=0.7, scale=2.0, shift=0.0, power=2.0)


def pictures(count: int = 200) -> tuple[Tensor, Tensor]:
    """Pictures that the mixture gets right, at all distances from its boundary."""
    images = 0.3 + 0.4 * torch.rand((count, *SHAPE), generator=generator(1, "flatten"))
    robust = Half("robust", 0.6).direction
    wanted = torch.linspace(-2.0, 2.0, count)
    # Moved along the robust direction until the lead there is as wanted.
    now = (images.flatten(1) - 0.5) @ robust
    images = (images.flatten(1) + ((wanted - now) / robust.square().sum())[:, None] * robust).view_as(images)
    inside = ((images > EPS) & (images < 1 - EPS)).flatten(1).all(1)
    images = images[inside]
    return images, mixture()(images).argmax(1)


def strongest(images: Tensor, labels: Tensor, eps: float) -> Tensor:
    """Every pixel against the label: both leads are as small as the ball allows, and nothing can be better."""
    against = torch.where(labels == 0, -1.0, 1.0)[:, None]
    both = sum((Half(name, 1.0).direction.sign() for name in ("standard", "robust")), torch.zeros(2 * HALF))
    return (images.flatten(1) + eps * against * both).view_as(images)


def test_it_reaches_the_optimum_and_gradients_of_the_mixture_do_not() -> None:
    mixed, (images, labels) = mixture(), pictures()
    assert set(labels.tolist()) == {0, 1}
    exact, barely = (mixed(strongest(images, labels, eps)).argmax(1) != labels for eps in (EPS, 0.97 * EPS))
    clear = exact == barely  # what falls only in the last three percent of the ball is left out
    assert 30 < int(exact.sum()) < len(images) - 30
    broken = fooled(mixed, Flatten(steps=40)(mixed, images, labels), labels)
    assert not bool((broken & ~exact).any()), "more than is possible"
    assert torch.equal(broken[clear], exact[clear])
    usual = fooled(mixed, CWLinf(steps=40)(mixed, images, labels), labels)
    assert int(usual.sum()) < int(exact.sum()) - 10, "this toy does not show why the attack is needed"


def test_each_search_attacks_what_still_stands() -> None:
    mixed, (images, labels) = mixture(), pictures(60)
    one, several = (
        fooled(mixed, Flatten(steps=5, weights=weights, targets=0)(mixed, images, labels), labels)
        for weights in ((0.0,), (0.0, 0.3))
    )
    assert bool((several | ~one).all())
    assert int(several.sum()) > int(one.sum())


def test_a_defence_around_a_mixture_is_judged_as_deployed() -> None:
    mixed, (images, labels) = mixture(), pictures(60)
    check = Defense(mixed, detector=Neighbourhood(radius=2 / 255, steps=2), rule="abstain")
    adversarial = Flatten(steps=10)(check, images, labels)
    assert bool(fooled(check, adversarial, labels).any())


def test_it_needs_a_mixture() -> None:
    with pytest.raises(UsageError, match=r"Flatten attacks a mixture .* it was given Toy\. Use CWLinf or AutoAttack"):
        Flatten(steps=1)(Toy(), toy_images(2), torch.zeros(2, dtype=torch.int64))
    with pytest.raises(UsageError, match="at least 1 weight and 0 targets"):
        Flatten(weights=())


def test_an_image_gets_the_same_result_in_any_batch() -> None:
    mixed, (images, labels) = mixture(), pictures(12)
    whole = Flatten(steps=6)(mixed, images, labels)
    assert Flatten().threat.contains(whole, images).all()
    assert torch.allclose(Flatten(steps=6, batch_size=5)(mixed, images, labels), whole, atol=1e-6)
