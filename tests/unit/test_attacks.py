"""Our own searches: where the optimum is known, they find it; what they promise, they keep."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from alu import data, models
from alu.attacks import FGSM, MIM, PGD, Attack, CarliniWagnerL2, CWLinf
from alu.attacks.catalog import make_attack
from alu.errors import InputError, UsageError
from alu.models import resnet18
from alu.rng import generator
from alu.threat import ThreatModel
from alu.training.recipes import seeded
from tests.contracts.parts import images_like

SHAPE = (3, 8, 8)


class TwoClasses(nn.Module):
    """Logits (w·x + b, -(w·x + b)): the margin in every norm is known exactly."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(192, generator=generator(0, "weights")) / 20)

    def forward(self, images: Tensor) -> Tensor:
        value = (images - 0.5).flatten(1) @ self.weight
        return torch.stack([value, -value], 1)

    def margin(self, images: Tensor, norm: str) -> Tensor:
        """Distance to the other class."""
        value = ((images - 0.5).flatten(1) @ self.weight).detach().abs()
        dual = self.weight.abs().sum() if norm == "Linf" else self.weight.norm()
        return value / dual.detach()


SEARCHES: dict[str, Callable[..., Attack]] = {
    "FGSM": FGSM,
    "PGD": lambda **kw: PGD(steps=40, **kw),
    "PGD best": lambda **kw: PGD(steps=40, keep="best", **kw),
    "PGD margin": lambda **kw: PGD(steps=40, loss="margin", **kw),
    "MIM": lambda **kw: MIM(steps=40, **kw),
    "CW∞": lambda **kw: CWLinf(steps=40, **kw),
}


def known_optimum() -> tuple[TwoClasses, Tensor, Tensor]:
    """A linear model and images far enough inside the box that no pixel is clipped."""
    model = TwoClasses()
    images = 0.5 + 0.1 * (2 * torch.rand((12, *SHAPE), generator=generator(1, "images")) - 1)
    return model, images, model(images).argmax(1)


@pytest.mark.parametrize("norm", ["Linf", "L2"])
@pytest.mark.parametrize("name", list(SEARCHES))
def test_linear_models_with_a_known_optimum(norm: str, name: str) -> None:
    model, images, labels = known_optimum()
    for image, label, margin in zip(images, labels, model.margin(images, norm), strict=True):
        for factor, broken in ((1.25, True), (0.99, False)):
            attack = SEARCHES[name](norm=norm, eps=float(margin) * factor)
            adversarial = attack(model, image[None], label[None])
            assert bool(model(adversarial).argmax(1) != label) == broken, (norm, name, factor)


class SeveralClasses(nn.Module):
    """Five linear logits: the nearest other class, and how far it is, are known exactly."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn((192, 5), generator=generator(0, "weights")) / 20)

    def forward(self, images: Tensor) -> Tensor:
        return (images - 0.5).flatten(1) @ self.weight

    def margin(self, images: Tensor, labels: Tensor, norm: str) -> Tensor:
        """Distance to the nearest other class."""
        with torch.no_grad():
            logits, apart = self(images), self.weight[:, labels].T[:, :, None] - self.weight
            dual = apart.abs().sum(1) if norm == "Linf" else apart.norm(dim=1)
            lead = logits.gather(1, labels[:, None]) - logits
            return (lead / dual).masked_fill(nn.functional.one_hot(labels, 5).bool(), float("inf")).amin(1)


@pytest.mark.parametrize("norm", ["Linf", "L2"])
def test_linear_models_of_several_classes_over_every_target(norm: str) -> None:
    model = SeveralClasses()
    images = 0.5 + 0.1 * (2 * torch.rand((12, *SHAPE), generator=generator(1, "images")) - 1)
    labels = model(images).argmax(1)
    margins = model.margin(images, labels, norm)
    for factor, broken in ((1.25, True), (0.99, False)):
        for image, label, margin in zip(images, labels, margins, strict=True):
            fallen = False
            for target in range(5):
                if target != int(label):
                    attack = PGD(
                        norm=norm, eps=float(margin) * factor, steps=40, loss="margin", targeted=True, keep="best"
                    )
                    found = attack(model, image[None], torch.tensor([target]))
                    fallen |= bool(model(found).argmax(1) != label)
            assert fallen == broken, (norm, factor)


def test_more_steps_and_a_larger_ball_do_not_leave_more() -> None:
    model = models.load("cifar10-standard")
    test = data.sample("test").draw(40)

    def left(eps: float, steps: int) -> int:
        found = PGD(eps=eps, steps=steps)(model, test.images, test.labels)
        with torch.no_grad():
            return int((model(found).argmax(1) == test.labels).sum())

    by_eps = [left(eps / 255, 5) for eps in (0.5, 1, 2)]
    by_steps = [left(0.5 / 255, steps) for steps in (2, 5, 10)]
    for counts in (by_eps, by_steps):
        assert all(later <= earlier + 0.01 * len(test) for earlier, later in pairwise(counts)), counts


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
    found = make_attack("cw-l2", norm="L2", eps=eps, searches=8, steps=100)(model, images, labels)
    length = (found - images).flatten(1).norm(dim=1)
    assert float(length.max()) <= eps + 1e-6
    fell = model(found).argmax(1) != labels
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
    found = CarliniWagnerL2(searches=6, steps=100, targeted=True)(model, images, targets)
    assert torch.equal(model(found).argmax(1), targets)


def test_momentum_by_hand() -> None:
    model = seeded(lambda: resnet18(3, width=8), 2).eval().double()
    image, label = images_like(1, (3, 16, 16)).double(), torch.tensor([1])
    at, running = image, torch.zeros_like(image)
    for _ in range(3):
        at = at.detach().requires_grad_(True)
        (gradient,) = torch.autograd.grad(nn.functional.cross_entropy(model(at), label), at)
        running = 0.9 * running + gradient / gradient.abs().mean()
        at = ThreatModel("Linf", 8 / 255).project(at.detach() + 2 / 255 * running.sign(), image)
    found = MIM(steps=3, decay=0.9)(model, image, label)
    torch.testing.assert_close(found, at, rtol=0, atol=1e-12)
    assert not torch.equal(MIM(steps=3, decay=0.0)(model, image, label), found)


@pytest.mark.parametrize("norm", ["Linf", "L2"])
@pytest.mark.parametrize("targeted", [False, True])
def test_stays_in_the_ball_and_leaves_no_trace(norm: str, targeted: bool) -> None:
    model = seeded(lambda: resnet18(10, width=8), 0).train()
    images = images_like(6, (3, 32, 32)).clamp(0, 1)
    labels = torch.arange(6)
    before, state = images.clone(), torch.get_rng_state()
    eps = 8 / 255 if norm == "Linf" else 0.5
    adversarial = PGD(norm=norm, eps=eps, steps=3, targeted=targeted, restarts=2)(model, images, labels)
    assert ThreatModel(norm, eps).contains(adversarial, images).all()
    assert torch.equal(images, before)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(part.training for part in model.modules())
    assert all(weight.grad is None for weight in model.parameters())
    assert not adversarial.requires_grad


def test_targeted_goes_towards_the_label_and_untargeted_away() -> None:
    model = seeded(lambda: resnet18(10, width=8), 0).eval()
    images, labels = images_like(6, (3, 32, 32)), torch.arange(6)

    def loss(at: Tensor) -> float:
        with torch.no_grad():
            return float(nn.functional.cross_entropy(model(at), labels))

    plain = loss(images)
    assert loss(PGD(steps=5)(model, images, labels)) > plain
    assert loss(PGD(steps=5, targeted=True)(model, images, labels)) < plain


def test_an_image_does_not_depend_on_the_batch_size() -> None:
    model = seeded(lambda: resnet18(10, width=8), 0).eval().double()
    images, labels = images_like(7, (3, 32, 32)).double(), torch.arange(7)
    whole = PGD(steps=4, seed=3)(model, images, labels)
    parts = PGD(steps=4, seed=3, batch_size=2)(model, images, labels)
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-9)
    assert not torch.equal(PGD(steps=4, seed=4)(model, images, labels), whole)


def test_best_and_restarts_are_never_worse() -> None:
    model = seeded(lambda: resnet18(10, width=8), 1).eval()
    images, labels = images_like(10, (3, 32, 32)), torch.arange(10)

    def losses(attack: PGD) -> Tensor:
        with torch.no_grad():
            return nn.functional.cross_entropy(model(attack(model, images, labels)), labels, reduction="none")

    once = losses(PGD(steps=6, step_size=6 / 255))
    assert (losses(PGD(steps=6, step_size=6 / 255, keep="best")) >= once - 1e-5).all()
    assert (losses(PGD(steps=6, step_size=6 / 255, restarts=3)) >= once - 1e-5).all()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: PGD(eps=8), "write eps=8/255"),
        (lambda: PGD(norm="L1"), "no norm 'L1'"),
        (lambda: PGD(steps=0), "at least 1 step"),
        (lambda: PGD(loss="dlr"), "no loss 'dlr'"),
        (lambda: PGD(keep="first"), "no way to keep images"),
        (lambda: CarliniWagnerL2(steps=0), "at least 1"),
    ],
)
def test_wrong_settings_are_one_sentence(call: object, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        call()  # type: ignore[operator]


def test_wrong_labels_and_models_without_gradients_are_one_sentence() -> None:
    model, images = TwoClasses(), images_like(2, SHAPE)
    with pytest.raises(InputError, match="labels must run from 0 to 1"):
        PGD(steps=1)(model, images, torch.tensor([0, 5]))
    with pytest.raises(InputError, match="one whole-number label per image"):
        PGD(steps=1)(model, images, torch.tensor([0]))
    with pytest.raises(InputError, match="needs gradients"):
        PGD(steps=1)(lambda x: model(x).detach(), images, torch.tensor([0, 1]))
