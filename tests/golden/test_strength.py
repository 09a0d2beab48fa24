"""Our own searches beside foolbox's on networks that others trained: same images, steps and sizes, one random start."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from alu import data
from alu.attacks import PGD, CarliniWagnerL2
from alu.attacks.borrowed import borrow, undisturbed
from alu.integrations import to_foolbox
from alu.models import load_weights, resnet20
from tests.conftest import use_all_cores


def third_party_resnet20(shared_data: Path) -> nn.Module:
    return fast(load_weights(resnet20(), shared_data / "resnet20-cifar10-akamaster.th"))


def third_party_resnet18() -> nn.Module:
    """The network that comes with pyautoattack."""
    model: nn.Module = borrow("pyautoattack.examples.resnet", "test", "attacks").ResNet18()
    with resources.as_file(resources.files("pyautoattack") / "examples" / "model_test.pt") as path:
        model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return fast(model)


def fast(model: nn.Module) -> nn.Module:
    use_all_cores()
    return model.eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def foolbox_attack(model: nn.Module, attack: Any, images: Tensor, labels: Tensor, eps: float | None) -> Tensor:
    parts = []
    with undisturbed():
        torch.manual_seed(0)
        for start in range(0, len(images), 100):
            part = slice(start, start + 100)
            parts.append(attack(to_foolbox(model), images[part], labels[part], epsilons=eps)[1])
    return torch.cat(parts)


@torch.no_grad()
def right(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    return torch.cat([model(part).argmax(1) for part in images.split(100)]) == labels


def pgd_against_foolbox(model: nn.Module, count: int, eps: float) -> tuple[float, float]:
    """Shares that stay right under our PGD-20 and under foolbox's."""
    test = data.sample("test").draw(count)
    attacks = borrow("foolbox", "test", "attacks").attacks
    theirs = attacks.LinfPGD(abs_stepsize=eps / 4, steps=20, random_start=True)
    found = PGD(eps=eps, steps=20)(model, test.images, test.labels)
    others = foolbox_attack(model, theirs, test.images, test.labels, eps)
    assert ((found - test.images).abs() <= eps + 1e-6).all()
    shares = [float(right(model, images, test.labels).float().mean()) for images in (found, others)]
    return shares[0], shares[1]


def lengths_against_foolbox(model: nn.Module, count: int, searches: int, steps: int) -> tuple[float, float]:
    """Median L2 lengths of C&W's changes, ours and foolbox's, over the images that are right; a failure is infinite."""
    test = data.sample("test").draw(count)
    kept = right(model, test.images, test.labels)
    images, labels = test.images[kept], test.labels[kept]
    attacks = borrow("foolbox", "test", "attacks").attacks
    theirs = attacks.L2CarliniWagnerAttack(
        binary_search_steps=searches, steps=steps, stepsize=0.002, initial_const=1.0, abort_early=False
    )
    # At the usual rate of 0.01 the first step alone crosses most boundaries, and any two attacks look alike.
    found = CarliniWagnerL2(searches=searches, steps=steps, lr=0.002, c=1.0)(model, images, labels)
    others = foolbox_attack(model, theirs, images, labels, None)
    medians = []
    for adversarial in (found, others):
        length = (adversarial - images).flatten(1).norm(dim=1)
        length[right(model, adversarial, labels)] = float("inf")
        medians.append(float(length.median()))
    return medians[0], medians[1]


def test_pgd_is_as_strong_as_foolbox(shared_data: Path) -> None:
    ours, theirs = pgd_against_foolbox(third_party_resnet20(shared_data), 60, 1 / 255)
    assert 0.02 <= theirs <= 0.8, "eps at which strength shows"
    assert ours <= theirs + 0.01, (ours, theirs)


def test_carlini_wagner_is_as_short_as_foolbox(shared_data: Path) -> None:
    ours, theirs = lengths_against_foolbox(third_party_resnet20(shared_data), 24, 2, 30)
    # The two do the same arithmetic, so a tenth would hide a fault on so few images.
    assert ours <= 1.02 * theirs, (ours, theirs)
    assert ours < 0.2
