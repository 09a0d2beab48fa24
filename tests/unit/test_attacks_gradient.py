"""Our own searches: where the optimum is known, they find it; what they promise, they keep."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from alu import Defense, data, models
from alu.attacks import BPDAEOT, FGSM, MIM, PGD, Attack, CWLinf, fooled
from alu.detectors import LogitShift
from alu.errors import InputError, UsageError
from alu.models import resnet18
from alu.purifiers import BitDepth
from alu.rng import generator
from alu.threat import ThreatModel
from alu.training.recipes import seeded
from tests.conftest import SmoothClassifier
from tests.contracts.parts import LinearClassifier, images_like
from tests.toys import (
    SHAPE,
    SeveralClasses,
    Shaken,
    Toy,
    TwoClasses,
    known_optimum,
    sampled,
    slope,
    toy_data,
    toy_images,
)

SEARCHES: dict[str, Callable[..., Attack]] = {
    "FGSM": FGSM,
    "PGD": lambda **kw: PGD(steps=40, **kw),
    "PGD best": lambda **kw: PGD(steps=40, keep="best", **kw),
    "PGD margin": lambda **kw: PGD(steps=40, loss="margin", **kw),
    "MIM": lambda **kw: MIM(steps=40, **kw),
    "CW∞": lambda **kw: CWLinf(steps=40, **kw),
}


@pytest.mark.parametrize("norm", ["Linf", "L2"])
@pytest.mark.parametrize("name", list(SEARCHES))
def test_linear_models_with_a_known_optimum(norm: str, name: str) -> None:
    model, images, labels = known_optimum()
    for image, label, margin in zip(images, labels, model.margin(images, norm), strict=True):
        for factor, broken in ((1.25, True), (0.99, False)):
            attack = SEARCHES[name](norm=norm, eps=float(margin) * factor)
            adversarial = attack(model, image[None], label[None])
            assert bool(model(adversarial).argmax(1) != label) == broken, (norm, name, factor)


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
                    adversarial = attack(model, image[None], torch.tensor([target]))
                    fallen |= bool(model(adversarial).argmax(1) != label)
            assert fallen == broken, (norm, factor)


def test_more_steps_and_a_larger_ball_do_not_leave_more() -> None:
    model = models.load("cifar10-standard")
    test = data.sample("test").draw(40)

    def left(eps: float, steps: int) -> int:
        adversarial = PGD(eps=eps, steps=steps)(model, test.images, test.labels)
        with torch.no_grad():
            return int((model(adversarial).argmax(1) == test.labels).sum())

    by_eps = [left(eps / 255, 5) for eps in (0.5, 1, 2)]
    by_steps = [left(0.5 / 255, steps) for steps in (2, 5, 10)]
    for counts in (by_eps, by_steps):
        assert all(later <= earlier + 0.01 * len(test) for earlier, later in pairwise(counts)), counts


def test_momentum_by_hand() -> None:
    model = seeded(lambda: resnet18(3, width=8), 2).eval().double()
    image, label = images_like(1, (3, 16, 16)).double(), torch.tensor([1])
    at, running = image, torch.zeros_like(image)
    for _ in range(3):
        at = at.detach().requires_grad_(True)
        (gradient,) = torch.autograd.grad(nn.functional.cross_entropy(model(at), label), at)
        running = 0.9 * running + gradient / gradient.abs().mean()
        at = ThreatModel("Linf", 8 / 255).project(at.detach() + 2 / 255 * running.sign(), image)
    adversarial = MIM(steps=3, decay=0.9)(model, image, label)
    torch.testing.assert_close(adversarial, at, rtol=0, atol=1e-12)
    assert not torch.equal(MIM(steps=3, decay=0.0)(model, image, label), adversarial)


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


def test_stop_when_fooled_leaves_the_image_where_it_first_succeeds() -> None:
    model, data = Toy(), toy_data(12)
    settings: dict[str, Any] = {"eps": 0.3, "step_size": 0.02, "random_start": False, "stop_when_fooled": True}
    early, late = (PGD(steps=steps, **settings)(model, data.images, data.labels) for steps in (8, 16))
    fell = fooled(model, early, data.labels)
    assert bool(fell.any())
    assert torch.equal(early[fell], late[fell])
    settings["stop_when_fooled"] = False
    further = PGD(steps=16, **settings)(model, data.images, data.labels)
    assert not torch.equal(early[fell], further[fell])


def test_one_undefined_gradient_does_not_disarm_a_search() -> None:
    class Broken(Toy):
        def forward(self, images: Tensor) -> Tensor:
            # 0 times the infinite gradient of the branch that is not taken is NaN.
            extra = torch.where(images > 0.45, (images - 0.45).sqrt(), torch.zeros_like(images))
            return super().forward(images) + 1e-3 * extra.flatten(1)[:, :5]

    model, images = Broken(), toy_images(10)
    labels = model(images).argmax(1)
    at = images.clone().requires_grad_(True)
    assert bool(slope(model(at), at).isnan().any())
    for attack in (MIM(eps=0.1, steps=10), PGD(norm="L2", eps=1.0, steps=10)):
        adversarial = attack(model, images, labels)
        assert bool(torch.isfinite(adversarial).all())
        assert int(fooled(model, adversarial, labels).sum()) >= 8


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: PGD(eps=8), "write eps=8/255"),
        (lambda: PGD(norm="L1"), "no norm 'L1'"),
        (lambda: PGD(steps=0), "at least 1 step"),
        (lambda: PGD(loss="dlr"), "no loss 'dlr'"),
        (lambda: PGD(keep="first"), "no way to keep images"),
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


def test_draws_make_the_difference_on_a_random_model() -> None:
    plain, images, labels = known_optimum()

    def broken(draws: int) -> int:
        model, adversarial = Shaken(), []
        for image, label, margin in zip(images, labels, plain.margin(images, "Linf").tolist(), strict=True):
            # Only three steps the right way cross the boundary.
            attack = PGD(
                eps=2 * margin, steps=3, step_size=0.45 * margin, random_start=False, loss="margin", draws=draws
            )
            adversarial.append(attack(model, image[None], label[None]))
        return int((plain(torch.cat(adversarial)).argmax(1) != labels).sum())

    assert broken(1) <= 8
    assert broken(100) == 12


def test_wrong_draws_are_one_sentence() -> None:
    with pytest.raises(UsageError, match="1 draw; it was given 20, 1 and 0"):
        PGD(draws=0)


def defense(grad_mode: str = "unrolled") -> Defense:
    rounding = Defense(SmoothClassifier(SHAPE, 4), BitDepth(1), LogitShift(0.1), "purified", grad_mode=grad_mode)
    return rounding.calibrate(images_like(40, SHAPE, seed=3))


def test_bpda_by_hand() -> None:
    """One step along the gradient at the purified image."""
    model, images = defense("blind"), images_like(4, SHAPE)
    labels = model.decide(images).label
    attack = BPDAEOT(steps=1, step_size=0.05, eps=0.05, random_start=False, loss="margin", draws=2)
    adversarial = attack(model, images, labels)
    at = model.purifier(images).clone().requires_grad_(True)
    logits = model.logits(at)
    others = logits.scatter(1, labels[:, None], float("-inf")).amax(1)
    (expected,) = torch.autograd.grad((others - logits.gather(1, labels[:, None]).squeeze(1)).sum(), at)
    assert torch.equal(adversarial, (images + 0.05 * expected.sign()).clamp(0, 1))
    assert model.grad_mode == "blind"
    blind = PGD(steps=1, step_size=0.05, eps=0.05, random_start=False, loss="margin")
    assert not torch.equal(blind(model, images, labels), adversarial), "it has to matter where the gradient is taken"


def test_bpda_passes_what_has_no_gradient() -> None:
    model, images = defense("bpda"), images_like(12, SHAPE)
    labels = model.decide(images).label
    adversarial = BPDAEOT(eps=0.2, steps=10, draws=1)(model, images, labels)
    assert fooled(model, adversarial, labels).all()
    bare = LinearClassifier(SHAPE, 4)
    labels = bare(images).argmax(1)
    assert fooled(bare, BPDAEOT(eps=0.2, steps=5, draws=1)(bare, images, labels), labels).all()


def test_bpda_averages_over_draws() -> None:
    defense = Defense(Toy(), sampled(), rule="purified")
    data = toy_data(4)
    one, many = (BPDAEOT(draws=draws, steps=3, eps=0.05)(defense, data.images, data.labels) for draws in (1, 8))
    assert not torch.equal(one, many)
