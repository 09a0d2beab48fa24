"""What every attack promises, ours or borrowed; a new one is added to parts.py and gets all of it."""

from __future__ import annotations

import json

import pytest
import torch
from torch import Tensor, nn

from alu.attacks import PGD, Attack, catalog, fooled
from alu.threat import ThreatModel
from tests.conftest import SmoothClassifier
from tests.contracts.parts import BORROWED_ATTACKS, OWN_ATTACKS, images_like

SHAPE = (3, 8, 8)
EPS = {"Linf": 8 / 255, "L2": 0.5}
ATTACKS = {**OWN_ATTACKS, **BORROWED_ATTACKS}
every = pytest.mark.parametrize("name", list(ATTACKS))
own = pytest.mark.parametrize("name", list(OWN_ATTACKS))
norms = pytest.mark.parametrize("norm", list(EPS))


def problem(count: int = 7) -> tuple[nn.Module, Tensor, Tensor]:
    """8-bit pictures, and a classifier that a small change can fool on some of them."""
    model = SmoothClassifier(SHAPE, 6)
    images = (images_like(count, SHAPE) * 255).round() / 255
    with torch.no_grad():
        labels = model(images).argmax(1)
    return model, images, labels


def attack_named(name: str, norm: str, **settings: object) -> Attack:
    return ATTACKS[name](norm=norm, eps=EPS[norm], **settings)


@norms
@every
def test_inside_the_ball_and_nothing_left_behind(name: str, norm: str) -> None:
    model, images, labels = problem()
    model.train()
    before, state = images.clone(), torch.get_rng_state()
    adversarial = attack_named(name, norm)(model, images, labels)
    assert adversarial.shape == images.shape
    assert adversarial.dtype == images.dtype
    assert not adversarial.requires_grad
    assert ThreatModel(norm, EPS[norm]).contains(adversarial, images).all()
    assert torch.equal(images, before)
    assert torch.equal(torch.get_rng_state(), state), "the global random state"
    assert all(part.training for part in model.modules())
    assert all(weight.grad is None and weight.requires_grad for weight in model.parameters())


@every
def test_the_same_seed_gives_the_same_images(name: str) -> None:
    model, images, labels = problem()
    first = attack_named(name, "Linf", seed=1)(model, images, labels)
    torch.rand(3)
    assert torch.equal(attack_named(name, "Linf", seed=1)(model, images, labels), first)


@every
def test_no_images(name: str) -> None:
    model, images, labels = problem()
    assert attack_named(name, "Linf")(model, images[:0], labels[:0]).shape == (0, *SHAPE)


@norms
@every
def test_on_the_lattice(name: str, norm: str) -> None:
    model, images, labels = problem()
    attack = attack_named(name, norm, lattice=True)
    assert attack.lattice
    adversarial = attack(model, images, labels)
    levels = adversarial.double() * 255
    assert ((levels - levels.round()).abs() < 1e-4).all()
    assert (adversarial == levels.round().float() / 255).all(), "exactly what a saved picture gives back"
    assert ThreatModel(norm, EPS[norm]).contains(adversarial, images).all()
    if name in OWN_ATTACKS:
        assert not torch.equal(adversarial, images)


@norms
@own
def test_an_image_does_not_depend_on_its_batch(name: str, norm: str) -> None:
    model, images, labels = problem()
    model, images = model.double(), images.double()
    whole = attack_named(name, norm, seed=3)(model, images, labels)
    parts = attack_named(name, norm, seed=3, batch_size=2)(model, images, labels)
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-9)
    chosen = torch.tensor([5, 0, 3])
    few = attack_named(name, norm, seed=3)(model, images[chosen], labels[chosen], numbers=chosen.tolist())
    torch.testing.assert_close(few, whole[chosen], rtol=0, atol=1e-9)


@own
def test_it_fools_some_images(name: str) -> None:
    model, images, labels = problem(20)
    adversarial = attack_named(name, "Linf")(model, images, labels)
    assert float(fooled(model, adversarial, labels).float().mean()) >= 0.3


@pytest.mark.parametrize("keep", ["last", "best", "fooled"])
@pytest.mark.parametrize("loss", ["ce", "margin"])
def test_one_more_restart_never_does_harm(keep: str, loss: str) -> None:
    model, images, labels = problem(200)
    before = torch.zeros(200, dtype=torch.bool)
    for restarts in (1, 2, 4, 8):
        # One small step: where a search ends depends on where it began.
        attack = PGD(eps=0.1, steps=1, step_size=0.01, keep=keep, loss=loss, restarts=restarts)
        after = fooled(model, attack(model, images, labels), labels)
        assert (after | ~before).all(), restarts
        assert restarts == 1 or int(after.sum()) > int(before.sum())
        before = after


@pytest.mark.parametrize("name", [name for name in catalog.ATTACKS if name not in ("match", "transfer")])
def test_attacks_are_rebuilt_from_their_description(name: str) -> None:
    """Guides and other networks are no plain values; all other settings are."""
    norm = "L2" if name == "cw-l2" else "Linf"
    attack = catalog.make_attack(name, norm=norm, eps=0.03, seed=7)
    again = Attack.rebuild(json.loads(json.dumps(attack.description())))
    assert type(again) is type(attack)
    assert again.description() == attack.description()
    assert (again.norm, again.eps, again.seed) == (norm, 0.03, 7)
