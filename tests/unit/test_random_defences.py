"""Random defences: fresh draws come from other seeds, for those who attack them."""

from __future__ import annotations

import torch
from torch import nn

from alu import Defense
from alu.attacks import APGDCE, BPDAEOT, fooled
from alu.attacks.copies import Redrawn, redrawn
from alu.purifiers import Blur, Chain
from tests.toys import Toy, sampled, toy_data, toy_images


def test_another_draw_has_other_numbers_and_the_first_keeps_them() -> None:
    images = toy_images(3)
    for purifier in (sampled(), Chain(Blur(0.5), sampled())):
        first = purifier(images)
        torch.testing.assert_close(redrawn(purifier, 0)(images), first)
        other = redrawn(purifier, 1)(images)
        assert not torch.allclose(other, first)
        torch.testing.assert_close(redrawn(purifier, 1)(images), other)
        torch.testing.assert_close(purifier(images), first)  # what was given stays as it was


def test_every_call_is_another_draw_in_turn() -> None:
    defense, images = Defense(Toy(), sampled(), rule="purified"), toy_images(2).requires_grad_(True)
    asked = Redrawn(defense, 3)
    seen = [asked(images) for _ in range(6)]
    assert not torch.allclose(seen[0], seen[1])
    for first, second in zip(seen[:3], seen[3:], strict=True):
        torch.testing.assert_close(first, second)
    # A round ends with the deployed draw, which alone answers who wants no gradient.
    torch.testing.assert_close(seen[2], defense(images))
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(asked(images), defense(images))


def test_apgd_over_draws_breaks_what_is_deployed() -> None:
    defense, images = Defense(Toy(), sampled(), rule="purified"), toy_images(30)
    labels = defense.decide(images).label
    one, many = (
        int(fooled(defense, APGDCE(eps=0.03, steps=10, draws=draws)(defense, images, labels), labels).sum())
        for draws in (1, 10)
    )
    assert one >= 10
    assert many >= one // 2


def test_a_steady_module_has_nothing_to_redraw() -> None:
    layer = nn.Linear(2, 2)
    assert redrawn(layer, 5).weight is layer.weight


def test_bpda_averages_over_draws() -> None:
    defense = Defense(Toy(), sampled(), rule="purified")
    data = toy_data(4)
    one, many = (BPDAEOT(draws=draws, steps=3, eps=0.05)(defense, data.images, data.labels) for draws in (1, 8))
    assert not torch.equal(one, many)
