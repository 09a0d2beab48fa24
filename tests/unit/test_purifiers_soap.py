"""SOAP on a linear classifier of two pixels, where the loss and every step can be worked out by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from alu.errors import UsageError
from alu.purifiers import SOAP
from tests.unit.test_purifiers_guided import Line, pixels


def gap(images: Tensor) -> Tensor:
    """The left pixel minus the right one."""
    return images.flatten(1)[:, 0] - images.flatten(1)[:, 1]


def loss(apart: float) -> float:
    """Both pixels move by 7/8 of the gap, so the only logit that is not 0 moves by (3 + 2) * 7/8 of it."""
    return (5 * 7 / 8 * apart) ** 2 / 2


def test_the_loss_of_a_linear_classifier() -> None:
    found = SOAP(Line()).inconsistency(pixels((0.7, 0.5), (0.4, 0.4)))
    torch.testing.assert_close(found, torch.tensor([loss(0.2), 0.0]))


def test_steps_close_the_gap_as_far_as_they_go() -> None:
    purified = SOAP(Line(), steps=5, step_size=0.01)(pixels((0.7, 0.5), (0.3, 0.5)))
    torch.testing.assert_close(purified, pixels((0.65, 0.55), (0.35, 0.45)))


def test_the_radius_with_the_least_loss_is_kept() -> None:
    # Steps of 0.01 close 0.02 of the gap each. From 0.05 they end at 0.03 inside the first ball and at 0.01, on either
    # side, inside the others; from 0.005 five steps end at 0.015 on the other side, so that the image itself is best.
    purifier = SOAP(Line(), steps=5, step_size=0.01)
    far, near = pixels((0.55, 0.5)), pixels((0.505, 0.5))
    assert float(gap(purifier(far)).abs()) == pytest.approx(0.01, abs=1e-6)
    assert torch.equal(purifier(near), near)
    assert float(gap(SOAP(Line(), steps=5, step_size=0.01, radii=1)(far))) == pytest.approx(0.03, abs=1e-6)
    together = purifier(torch.cat([far, near]))
    assert torch.equal(together[1:], near), "each image has its own radius"


def test_the_gradient_follows_the_chosen_ball() -> None:
    purifier = SOAP(Line(), steps=5, step_size=0.01)
    images = torch.cat([pixels((0.7, 0.5)), pixels((0.505, 0.5))]).requires_grad_(True)
    (gradient,) = torch.autograd.grad(purifier(images)[:, :, :, 0].sum(), images)
    # An image that stays has the identity's gradient; one that is moved does not.
    torch.testing.assert_close(gradient[1].flatten(), torch.tensor([1.0, 0.0]))
    assert not torch.allclose(gradient[0].flatten(), torch.tensor([1.0, 0.0]))


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(UsageError, match="at least 1 radius beside 0"):
        SOAP(Line(), radii=0)
    with pytest.raises(UsageError, match="SOAP needs steps"):
        SOAP(Line(), step_size=0.0)
