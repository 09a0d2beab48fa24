"""Averages over draws and borrowed gradients: they change what is wanted, never the search."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from alu import Defense
from alu.attacks import BPDAEOT, PGD, Averaged, Misclassify, fooled, with_grad_mode
from alu.detectors import LogitShift
from alu.errors import UsageError
from alu.purifiers import BitDepth, LatentVAE
from alu.rng import generator
from tests.conftest import SmoothClassifier
from tests.contracts.parts import LinearClassifier, images_like, small_vae
from tests.unit.test_attacks import SHAPE, TwoClasses, known_optimum


class Shaken(TwoClasses):
    """The linear model behind noise that flips the sign of its gradient three times in ten."""

    def __init__(self) -> None:
        super().__init__()
        self.stream, self.calls = generator(0, "shaken"), 0

    def forward(self, images: Tensor) -> Tensor:
        self.calls += 1
        sign = torch.where(torch.rand((len(images), 1), generator=self.stream) < 0.3, -1.0, 1.0)
        return super().forward(images) * sign


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


def test_draws_make_the_difference_on_a_random_model() -> None:
    plain, images, labels = known_optimum()

    def broken(draws: int) -> int:
        model, found = Shaken(), []
        for image, label, margin in zip(images, labels, plain.margin(images, "Linf").tolist(), strict=True):
            # Only three steps the right way cross the boundary.
            attack = PGD(
                eps=2 * margin, steps=3, step_size=0.45 * margin, random_start=False, loss="margin", draws=draws
            )
            found.append(attack(model, image[None], label[None]))
        return int((plain(torch.cat(found)).argmax(1) != labels).sum())

    assert broken(1) <= 8
    assert broken(100) == 12


def test_wrong_draws_are_one_sentence() -> None:
    with pytest.raises(UsageError, match="1 draw; it was given 20, 1 and 0"):
        PGD(draws=0)


def defense(grad_mode: str = "unrolled") -> Defense:
    made = Defense(SmoothClassifier(SHAPE, 4), BitDepth(1), LogitShift(0.1), "purified", grad_mode=grad_mode)
    return made.calibrate(images_like(40, SHAPE, seed=3))


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


def test_bpda_by_hand() -> None:
    """One step along the gradient at the purified image."""
    model, images = defense("blind"), images_like(4, SHAPE)
    labels = model.decide(images).label
    attack = BPDAEOT(steps=1, step_size=0.05, eps=0.05, random_start=False, loss="margin", draws=2)
    found = attack(model, images, labels)
    at = model.purifier(images).clone().requires_grad_(True)
    logits = model.logits(at)
    others = logits.scatter(1, labels[:, None], float("-inf")).amax(1)
    (expected,) = torch.autograd.grad((others - logits.gather(1, labels[:, None]).squeeze(1)).sum(), at)
    assert torch.equal(found, (images + 0.05 * expected.sign()).clamp(0, 1))
    assert model.grad_mode == "blind"
    blind = PGD(steps=1, step_size=0.05, eps=0.05, random_start=False, loss="margin")
    assert not torch.equal(blind(model, images, labels), found), "it has to matter where the gradient is taken"


def test_bpda_passes_what_has_no_gradient() -> None:
    model, images = defense("bpda"), images_like(12, SHAPE)
    labels = model.decide(images).label
    found = BPDAEOT(eps=0.2, steps=10, draws=1)(model, images, labels)
    assert fooled(model, found, labels).all()
    bare = LinearClassifier(SHAPE, 4)
    labels = bare(images).argmax(1)
    assert fooled(bare, BPDAEOT(eps=0.2, steps=5, draws=1)(bare, images, labels), labels).all()
