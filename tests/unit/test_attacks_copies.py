"""Copies of a model: another gradient, other random numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from alu import Defense
from alu.attacks import APGDCE, PGD, with_grad_mode
from alu.attacks.copies import Redrawn, redrawn
from alu.errors import UsageError
from alu.purifiers import Blur, Chain, LatentVAE
from tests.contracts.parts import LinearClassifier, images_like, small_vae
from tests.toys import Toy, random_defense, sampled, toy_data, toy_images


def gradient(model: Defense, images: Tensor) -> Tensor:
    images = images.clone().requires_grad_(True)
    return torch.autograd.grad(model(images)[:, 0].sum(), images)[0]


def test_a_view_has_another_gradient_and_the_same_answer() -> None:
    vae = LatentVAE(small_vae((3, 16, 16)), steps=2, lr=1e-3, solver="gd")
    given = Defense(LinearClassifier((3, 16, 16), 4), vae, rule="purified", grad_mode="surrogate")
    images = images_like(3, (3, 16, 16))
    view = with_grad_mode(given, "bpda")
    assert given.grad_mode == "surrogate"
    assert torch.equal(view(images), given(images))
    assert torch.equal(view.decide(images).label, given.decide(images).label)
    assert not torch.equal(gradient(view, images), gradient(given, images))
    given.grad_mode = "bpda"
    assert torch.equal(gradient(view, images), gradient(given, images))
    assert [id(weight) for weight in view.parameters()] == [id(weight) for weight in given.parameters()]
    with pytest.raises(UsageError, match="Linear has no grad_mode"):
        with_grad_mode(torch.nn.Linear(2, 2), "bpda")
    with pytest.raises(UsageError, match="no gradient mode 'bpd'"):
        with_grad_mode(given, "bpd")(images)


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
    # A round ends with the deployed draw; calls without a gradient always use that one.
    torch.testing.assert_close(seen[2], defense(images))
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(asked(images), defense(images))


def test_a_deterministic_module_has_nothing_to_redraw() -> None:
    layer = nn.Linear(2, 2)
    assert redrawn(layer, 5).weight is layer.weight


@pytest.mark.parametrize("kind", [PGD, APGDCE])
def test_draws_differ_where_they_depend_on_the_image(kind: Any) -> None:
    defense, data = random_defense("purified"), toy_data(6)
    assert torch.equal(defense(data.images), defense(data.images)), "a second call is the same draw"
    one, many = (kind(eps=0.05, steps=5, draws=draws)(defense, data.images, data.labels) for draws in (1, 8))
    assert not torch.equal(one, many)
