"""The minimal-norm attack: where the shortest change is known, it finds it."""

from __future__ import annotations

import pytest
import torch

from alu.attacks import CarliniWagnerL2
from alu.attacks.catalog import make_attack
from alu.errors import UsageError
from alu.rng import generator
from tests.toys import SHAPE, SeveralClasses, known_optimum


def test_the_minimal_norm_is_found() -> None:
    model, images, labels = known_optimum()
    adversarial = CarliniWagnerL2(searches=8, steps=200)(model, images, labels)
    ratio = (adversarial - images).flatten(1).norm(dim=1) / model.margin(images, "L2")
    assert (model(adversarial).argmax(1) != labels).all()
    assert (ratio >= 1.0).all(), "nothing shorter than the optimum can succeed"
    assert (ratio <= 1.25).all(), ratio


def test_the_minimal_norm_by_name_and_within_a_ball() -> None:
    model, images, labels = known_optimum()
    eps = 1.1 * float(model.margin(images, "L2").median())
    adversarial = make_attack("cw-l2", norm="L2", eps=eps, searches=8, steps=100)(model, images, labels)
    length = (adversarial - images).flatten(1).norm(dim=1)
    assert float(length.max()) <= eps + 1e-6
    fell = model(adversarial).argmax(1) != labels
    assert 4 <= int(fell.sum()) <= 8, "about those whose margin is below the median"
    with pytest.raises(UsageError, match="in L2, not in Linf"):
        make_attack("cw-l2", norm="Linf", eps=0.1)


def test_a_fixed_constant_may_fail_and_then_changes_nothing() -> None:
    model, images, labels = known_optimum()
    weak = CarliniWagnerL2(searches=1, steps=20, c=1e-4, lr=1e-4)(model, images, labels)
    assert torch.equal(weak, images)
    strong = CarliniWagnerL2(searches=1, steps=100, c=10.0)(model, images, labels)
    assert bool((model(strong).argmax(1) != labels).all())
    assert bool(((strong - images).flatten(1).norm(dim=1) >= model.margin(images, "L2")).all())


def test_the_minimal_norm_towards_a_target() -> None:
    model = SeveralClasses()
    images = 0.5 + 0.1 * (2 * torch.rand((8, *SHAPE), generator=generator(1, "images")) - 1)
    targets = model(images).argsort(1)[:, 1]  # the last but one, which no untargeted search would choose
    adversarial = CarliniWagnerL2(searches=6, steps=100, targeted=True)(model, images, targets)
    assert torch.equal(model(adversarial).argmax(1), targets)


def test_wrong_settings_are_one_sentence() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        CarliniWagnerL2(steps=0)
