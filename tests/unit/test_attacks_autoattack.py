"""pyautoattack through our adapter: the same images as without it, and nothing left behind."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyautoattack
import pytest
import torch
from pyautoattack import checks
from pyautoattack.autopgd_base import APGDAttack, APGDAttack_targeted
from pyautoattack.fab_pt import FABAttack_PT
from pyautoattack.square import SquareAttack
from torch import Tensor, nn

from alu import Defense
from alu.attacks import APGDCE, APGDDLR, APGDT, FAB, AutoAttack, Square, fooled
from alu.attacks.autoattack import PyAutoAttack
from alu.errors import InputError, MissingExtraError, UsageError
from alu.rng import generator
from tests.conftest import SmoothClassifier
from tests.toys import SHAPE, SeveralClasses, Toy, TwoClasses, known_optimum, sampled, toy_images

EPS = {"Linf": 0.05, "L2": 0.4}


@pytest.fixture(autouse=True)
def _unchanged() -> Iterator[None]:
    """Calling the library directly reseeds the global random state; put it back."""
    with torch.random.fork_rng(devices=[]):
        yield


def problem(classes: int = 10, count: int = 12) -> tuple[nn.Module, Tensor, Tensor]:
    """A small smooth classifier, and images of which about one in six is wrong from the start."""
    model = SmoothClassifier(SHAPE, classes).eval()
    images = torch.rand((count, *SHAPE), generator=generator(3, "autoattack"))
    with torch.no_grad():
        labels = model(images).argmax(1)
    labels[::6] = (labels[::6] + 1) % classes
    return model, images, labels


def share_right(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    with torch.no_grad():
        return float((model(images).argmax(1) == labels).float().mean())


@pytest.mark.parametrize(
    ("version", "norm"),
    [("standard", "Linf"), pytest.param("standard", "L2", marks=pytest.mark.slow), ("rand", "Linf")],
)
def test_autoattack_is_identical_to_the_library(version: str, norm: str) -> None:
    model, images, labels = problem(5, 7)
    direct = pyautoattack.AutoAttack(model, norm=norm, eps=EPS[norm], seed=4, version=version, device="cpu")
    direct.apgd_targeted.n_target_classes = direct.fab.n_target_classes = 4
    expected, _ = direct.run_standard_evaluation(images, labels, batch_size=4)
    attack = AutoAttack(version=version, norm=norm, eps=EPS[norm], seed=4, batch_size=4)
    adversarial = attack(model, images, labels)
    assert torch.equal(adversarial, expected)
    assert 0 < share_right(model, adversarial, labels) < share_right(model, images, labels), "every attack has to run"
    assert attack.batches(7) == [slice(0, 7)], "survivors are batched anew by the library"


def library_attack(ours: PyAutoAttack, model: nn.Module) -> Any:
    common: dict[str, Any] = {"norm": ours.threat.norm, "eps": ours.threat.eps, "seed": ours.seed}
    if isinstance(ours, APGDCE):
        return APGDAttack(model, n_iter=20, n_restarts=2, loss=ours.LOSS, **common)
    if isinstance(ours, APGDT):
        return APGDAttack_targeted(model, n_iter=20, n_target_classes=3, **common)
    if isinstance(ours, FAB):
        return FABAttack_PT(model, n_iter=10, targeted=ours.targets > 0, n_target_classes=4, **common)
    return SquareAttack(model, n_queries=100, resc_schedule=False, **common)


SINGLE: dict[str, Callable[..., PyAutoAttack]] = {
    "APGD-CE": lambda **common: APGDCE(steps=20, restarts=2, **common),
    "APGD-DLR": lambda **common: APGDDLR(steps=20, restarts=2, **common),
    "APGD-T": lambda **common: APGDT(steps=20, targets=3, **common),
    "FAB": lambda **common: FAB(steps=10, targets=0, **common),
    "FAB-T": lambda **common: FAB(steps=10, targets=4, **common),
    "Square": lambda **common: Square(queries=100, **common),
}


@pytest.mark.parametrize("norm", ["Linf", "L2"])
@pytest.mark.parametrize("name", list(SINGLE))
def test_each_attack_is_identical_to_the_library(name: str, norm: str) -> None:
    model, images, labels = problem()
    attack = SINGLE[name](norm=norm, eps=2 * EPS[norm], seed=5, batch_size=7)
    adversarial = attack(model, images, labels)
    direct = library_attack(attack, model)
    expected = torch.cat([direct.perturb(images[:7], labels[:7]), direct.perturb(images[7:], labels[7:])])
    assert torch.equal(adversarial, expected)
    assert share_right(model, adversarial, labels) < share_right(model, images, labels)


@pytest.mark.parametrize("name", [*SINGLE, "AutoAttack"])
def test_nothing_is_left_behind(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    model, images, labels = problem(count=5)
    model.train()
    states = torch.get_rng_state(), random.getstate(), str(np.random.get_state())  # noqa: NPY002
    before = images.clone()
    attack = {**SINGLE, "AutoAttack": AutoAttack}[name](eps=0.2)

    def tracer(frame: object, event: str, argument: object) -> None:
        return None

    previous = sys.gettrace()
    sys.settrace(tracer)
    try:
        attack(model, images, labels)
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(previous)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (random.getstate(), str(np.random.get_state())) == states[1:]  # noqa: NPY002
    assert all(weight.grad is None and weight.requires_grad for weight in model.parameters())
    assert all(part.training for part in model.modules())
    assert torch.equal(images, before)
    assert capfd.readouterr() == ("", "")


def test_logits_belong_to_the_model() -> None:
    model, images, labels = problem()
    kept: list[Tensor] = []

    def remembering(at: Tensor) -> Tensor:
        kept.append(model(at).detach())
        return kept[-1]

    Square(queries=5)(remembering, images, labels)
    assert all(logits.isfinite().all() for logits in kept), "Square marks the label with -inf"


class Dynamic(SmoothClassifier):
    """Takes a gradient step of its own before it answers."""

    def forward(self, images: Tensor) -> Tensor:
        with torch.enable_grad():
            at = images.detach().requires_grad_(True)
            (gradient,) = torch.autograd.grad(super().forward(at).logsumexp(1).sum(), at)
        return super().forward(images - 0.01 * gradient)


class Noisy(SmoothClassifier):
    """Answers with fresh noise each time."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images + 0.1 * torch.randn(images.shape))


def flags(model: nn.Module, **settings: Any) -> tuple[str, ...]:
    _, images, labels = problem(count=3)
    attack = AutoAttack(eps=0.3, **settings)
    attack(model, images, labels)
    return attack.flags_


@pytest.mark.parametrize("version", ["standard", "rand"])
def test_progress_is_reported_while_nothing_breaks(version: str) -> None:
    asked, reports = [0], list[tuple[int, int]]()

    class Certain(nn.Module):
        """Right about every image, whatever is done to it, with a gradient that leads nowhere."""

        def forward(self, images: Tensor) -> Tensor:
            asked[0] += len(images)
            other = images.flatten(1)[:, :10]
            return 1e-3 * other + 50.0 * torch.eye(10)[0]

    images, labels = torch.rand((2, *SHAPE), generator=generator(0, "certain")), torch.zeros(2, dtype=torch.int64)
    attack = AutoAttack(version=version, eps=0.01, norm="Linf")
    attack(Certain(), images, labels, lambda done, total: reports.append((done, total)))
    assert reports[-1] == (2, 2)
    assert all(total == 2 for _, total in reports)
    assert [done for done, _ in reports] == sorted(done for done, _ in reports)
    assert (1, 2) in reports, "half-way is reported half-way"
    assert asked[0] / 2 == pytest.approx(AutoAttack.VERSIONS[version], rel=0.35)
    assert attack.progress is None


def test_flags_are_kept_and_do_not_stick() -> None:
    plain = SmoothClassifier(SHAPE, 10)
    assert flags(plain) == ()
    checks.funcs["grad"] = 7  # what an earlier, direct use leaves behind
    assert flags(plain) == ()
    (dynamic,) = flags(Dynamic(SHAPE, 10))
    assert dynamic.startswith("it seems to be a dynamic defense!")
    assert not any(checks.funcs.values())
    assert flags(plain) == (), "the flag of the model before"
    assert any("it seems to be a randomized defense!" in flag for flag in flags(Noisy(SHAPE, 10)))
    assert flags(Noisy(SHAPE, 10), version="rand") == ()
    softmax = nn.Sequential(plain, nn.Softmax(1))
    assert any("the output is a probability distribution" in flag for flag in flags(softmax))


def test_flags_belong_to_one_call() -> None:
    _, images, labels = problem(count=3)
    attack = AutoAttack(eps=0.3)
    attack(Dynamic(SHAPE, 10), images, labels)
    assert attack.flags_
    attack(SmoothClassifier(SHAPE, 10), images, labels)
    assert attack.flags_ == ()


@pytest.mark.parametrize(
    ("classes", "version", "left_out"), [(2, "standard", "apgd-t"), (3, "standard", "apgd-t"), (2, "rand", "apgd-dlr")]
)
def test_few_classes(classes: int, version: str, left_out: str) -> None:
    model, images, labels = problem(classes, 5)
    attack = AutoAttack(eps={2: 0.02, 3: 0.035}[classes], version=version)
    adversarial = attack(model, images, labels)
    assert 0 < share_right(model, adversarial, labels) < share_right(model, images, labels), "every attack has to run"
    assert attack.flags_[0].startswith(f"Left out: {left_out}: its loss needs")


def test_fewer_classes_than_targets() -> None:
    model, images, labels = problem(5)
    for attack in (APGDT(steps=10, eps=0.1), FAB(steps=10, eps=0.1)):
        assert share_right(model, attack(model, images, labels), labels) < share_right(model, images, labels)
    small, images, labels = problem(3)
    with pytest.raises(InputError, match="this model has 3 classes"):
        APGDT()(small, images, labels)
    small, images, labels = problem(2)
    with pytest.raises(InputError, match="compares three logits, but this model has 2 classes"):
        APGDDLR()(small, images, labels)


@pytest.mark.parametrize("norm", ["Linf", "L2"])
@pytest.mark.parametrize("name", ["APGD-CE", "FAB", "FAB-T"])
def test_known_optimum(name: str, norm: str) -> None:
    model, images, labels = known_optimum()
    for image, label, margin in zip(images[:4], labels, model.margin(images, norm), strict=False):
        for factor, broken in ((1.25, True), (0.99, False)):
            adversarial = SINGLE[name](norm=norm, eps=float(margin) * factor)(model, image[None], label[None])
            assert bool(model(adversarial).argmax(1) != label) == broken, factor


@pytest.mark.parametrize("norm", ["Linf", "L2"])
def test_known_optimum_of_several_classes(norm: str) -> None:
    model = SeveralClasses()
    images = 0.5 + 0.1 * (2 * torch.rand((6, 3, 8, 8), generator=generator(1, "images")) - 1)
    labels = model(images).argmax(1)
    for image, label, margin in zip(images, labels, model.margin(images, labels, norm), strict=True):
        for factor, broken in ((1.25, True), (0.99, False)):
            adversarial = APGDT(steps=40, norm=norm, eps=float(margin) * factor)(model, image[None], label[None])
            assert bool(model(adversarial).argmax(1) != label) == broken, factor


def test_models_without_gradients() -> None:
    model, images, labels = problem()
    weight = [layer.detach().double().numpy() for layer in model.parameters()]

    def answers(at: Tensor) -> np.ndarray[Any, Any]:
        """The same classifier outside torch."""
        hidden = np.tanh(at.numpy().reshape(len(at), -1) @ weight[0].T + weight[1])
        return np.asarray(3.0 * (hidden @ weight[2].T + weight[3]), dtype=np.float32)

    adversarial = Square(eps=0.1, queries=200)(answers, images, labels)
    assert share_right(model, adversarial, labels) < share_right(model, images, labels) - 0.2
    for attack in (APGDCE(), APGDT(), FAB(), FAB(targets=0), AutoAttack()):
        with pytest.raises(InputError, match=f"{type(attack).__name__} needs gradients"):
            attack(answers, images, labels)


def test_double_precision() -> None:
    model, images, labels = problem()
    adversarial = APGDCE(eps=0.1, steps=10)(model.double(), images.double(), labels)
    assert adversarial.dtype == torch.float64
    assert share_right(model, adversarial, labels) < share_right(model, images.double(), labels)


def test_a_missing_library_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("pyautoattack")]:
        monkeypatch.setitem(sys.modules, name, None)
    model, images, labels = problem(count=1)
    with pytest.raises(
        MissingExtraError, match=r"APGDCE needs the package pyautoattack.*pip install -e '\.\[attacks\]'"
    ):
        APGDCE()(model, images, labels)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: AutoAttack(version="plus"), "no version 'plus'"),
        (lambda: APGDCE(steps=0), "APGDCE needs steps of at least 1"),
        (lambda: Square(queries=0), "Square needs queries of at least 1"),
        (lambda: FAB(batch_size=0), "FAB needs a batch_size of at least 1"),
        (lambda: APGDT(eps=8), "write eps=8/255"),
    ],
)
def test_wrong_settings_are_one_sentence(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        call()


def test_wrong_images_and_labels_are_one_sentence() -> None:
    model = TwoClasses()
    with pytest.raises(InputError, match="labels must run from 0 to 1"):
        APGDCE()(model, torch.rand(2, *SHAPE), torch.tensor([0, 2]))
    with pytest.raises(InputError, match="at least 5 x 5 pixels; these are 4 x 12"):
        Square(norm="L2", eps=0.5)(model, torch.rand(2, 4, 4, 12), torch.tensor([0, 1]))


def test_apgd_over_draws_breaks_what_is_deployed() -> None:
    defense, images = Defense(Toy(), sampled(), rule="purified"), toy_images(30)
    labels = defense.decide(images).label
    one, many = (
        int(fooled(defense, APGDCE(eps=0.03, steps=10, draws=draws)(defense, images, labels), labels).sum())
        for draws in (1, 10)
    )
    assert one >= 10
    assert many >= one // 2
