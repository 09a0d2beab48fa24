"""Goals: the mean over draws."""

from __future__ import annotations

import pytest
import torch

from alu.attacks import Averaged, Misclassify
from alu.errors import UsageError
from alu.rng import generator
from tests.contracts.parts import images_like
from tests.toys import SHAPE, Shaken


def test_the_average_is_the_mean_of_its_draws() -> None:
    model, images = Shaken(), images_like(5, SHAPE).requires_grad_(True)
    labels = torch.tensor([0, 1, 0, 1, 0])
    goal = Averaged([Misclassify(model, labels, "margin")] * 6)
    direction, loss = goal.ascent(images, "test")
    assert model.calls == 6
    again = Shaken()
    losses = [Misclassify(again, labels, "margin").loss(images) for _ in range(6)]
    expected = torch.stack(losses).mean(0)
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(direction, torch.autograd.grad(expected.sum(), images)[0])
    model.stream = generator(0, "shaken")
    torch.testing.assert_close(goal.loss(images), expected)
    with pytest.raises(UsageError, match="at least 1 draw"):
        Averaged([])
