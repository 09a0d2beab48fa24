"""Mixing: the formula, what alpha promises, and how it is fitted."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import alu
from alu import Defense
from alu.attacks import CWLinf
from alu.detectors import Neighbourhood
from alu.errors import InputError, StorageError, UsageError
from alu.evaluation.evaluate import evaluate, prepare
from alu.evaluation.obligations import unmet
from alu.models import Mixed
from alu.models import mixed as module
from alu.models.mixed import ahead, choose, reshape, right
from alu.rng import generator
from alu.threat import ThreatModel
from tests.toys import CLASSES, Toy, toy_data, toy_images

NUMBERS: dict[str, float] = {"alpha": 0.7, "scale": 2.0, "shift": -0.25, "power": 3.0}


class Says(nn.Module):
    """Logits that are written into the image: pixel by pixel, times a factor."""

    def __init__(self, first: int, factor: float = 1.0) -> None:
        super().__init__()
        self.first, self.factor = first, factor

    def forward(self, images: Tensor) -> Tensor:
        return self.factor * (images.flatten(1)[:, self.first : self.first + CLASSES] - 0.5)


def pictures(count: int) -> Tensor:
    return torch.rand((count, 1, 2, CLASSES), generator=generator(0, "mixed"))


def mixture(**changed: Any) -> Mixed:
    return Mixed(Says(0, 8.0), Says(CLASSES, 8.0), **{**NUMBERS, **changed})


def test_it_is_the_logarithm_of_the_weighted_mean() -> None:
    mixed, images = mixture(sharpen=3.0).double(), pictures(50).double()
    standard, robust = mixed.parts(images)
    normal = (robust - robust.mean(1, keepdim=True)) / (robust.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
    u = (normal - 0.25) * torch.special.ndtr(normal - 0.25)
    g = (2.0 * u.sign() * u.abs() ** 3).softmax(1)
    expected = (0.7 * g + 0.3 * (3.0 * standard).softmax(1)).log()
    assert torch.allclose(mixed(images), expected, atol=1e-6)


def test_its_gradient_is_exact() -> None:
    mixed = mixture(sharpen=2.0).double()
    images = pictures(3).double().requires_grad_(True)
    assert torch.autograd.gradcheck(mixed, (images,))


def test_extreme_logits_stay_finite() -> None:
    mixed = Mixed(Says(0, 1e5), Says(CLASSES, 1e5), alpha=0.999, scale=64.0, shift=0.5, power=8.0)
    images = pictures(40).requires_grad_(True)
    logits = mixed(images)
    (gradient,) = torch.autograd.grad(logits.sum(), images)
    assert bool(torch.isfinite(logits).all())
    assert bool(torch.isfinite(gradient).all())


def test_a_large_lead_cannot_be_overturned_and_a_smaller_one_can() -> None:
    mixed, images = mixture(sharpen=1e4), pictures(400)
    _, robust = mixed.parts(images)
    g = mixed.reshaped(robust).softmax(1)
    answer = g.argmax(1)
    lead = ahead(g, answer)
    sure = lead > 0.3 / 0.7 + 1e-3
    unsure = lead < 0.3 / 0.7 - 1e-3
    assert min(int(sure.sum()), int(unsure.sum())) > 40
    changed = torch.zeros_like(sure)
    for claimed in range(CLASSES):  # a standard classifier that says one class whatever comes
        images.flatten(1)[:, :CLASSES] = nn.functional.one_hot(torch.tensor(claimed), CLASSES).float()
        changed |= mixed(images).argmax(1) != answer
    assert not bool(changed[sure].any())
    assert bool(changed[unsure].all())


def test_the_choice_is_the_best_of_all_and_keeps_its_share() -> None:
    stream = generator(1, "choice")
    labels = torch.randint(CLASSES, (300,), generator=stream)
    toward = nn.functional.one_hot(labels, CLASSES)
    clean = 2.0 * toward + 1.2 * torch.randn((300, CLASSES), generator=stream)
    attacked = [clean - 0.3 * toward * torch.rand((300, 1), generator=stream) for _ in range(2)]
    chosen = choose(clean, attacked, labels, 0.9)
    stands, wrong = right(attacked, labels), clean.argmax(1) != labels

    def judged(scale: float, shift: float, power: float) -> tuple[float, int]:
        pool = [reshape(logits, scale, shift, power).softmax(1) for logits in attacked]
        lead = torch.minimum(*(ahead(each, labels) for each in pool))[stands].sort().values
        at = 0.1 * (len(lead) - 1)
        low, high = lead[int(at)], lead[int(at) + 1]
        needed = float(low + (at - int(at)) * (high - low))
        g = reshape(clean, scale, shift, power).softmax(1)
        lost = sum(float(row.max() - row[label]) >= needed for row, label in zip(g[wrong], labels[wrong], strict=True))
        return needed, lost

    every = {one: judged(*one) for one in product(module.SCALES, module.SHIFTS, module.POWERS)}
    usable = {one: lost for one, (lead, lost) in every.items() if 0.01 <= lead <= 0.95}
    assert min(usable.values()) < max(usable.values())
    # The order in which they are tried must not matter.
    backwards = choose(clean, attacked, labels, 0.9, module.SCALES[::-1], module.SHIFTS[::-1], module.POWERS[::-1])
    for found in (chosen, backwards):
        one = (found["scale"], found["shift"], found["power"])
        assert found["alpha"] == pytest.approx(1 / (1 + every[one][0]), abs=1e-5)
        assert usable[one] == min(usable.values())


def fitted(monkeypatch: pytest.MonkeyPatch, attack: Any, **settings: Any) -> tuple[Mixed, list[Any]]:
    seen: list[Any] = []

    def watched(model: nn.Module, images: Tensor, labels: Tensor, **more: Any) -> Tensor:
        seen.append((model, len(images)))
        return attack(model, images, labels, **more)

    monkeypatch.setattr(module, "FEWEST", 10)
    data = toy_data(80)
    labels = torch.where(torch.arange(80) % 8 == 0, (data.labels + 1) % CLASSES, data.labels)
    return Mixed.fit(Toy(), Toy(), data.images, labels, watched, **settings), seen


def test_what_was_chosen_is_attacked_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    attack, stages = CWLinf(eps=0.02, steps=3), []
    once, seen = fitted(monkeypatch, attack, keep=0.8, rounds=0)
    assert [count for _, count in seen] == [80]
    _, seen = fitted(monkeypatch, attack, keep=0.8, watch=lambda stage, *_: stages.append(stage))
    assert len(seen) > 1, "the chosen g was not attacked"
    assert isinstance(seen[0][0], Toy)
    assert isinstance(seen[1][0], module.Reshaped)
    assert seen[1][1] < 80, "only images that stand are attacked again"
    assert "Attacking what was chosen, round 1" in stages
    # With the same logits g's lead can only have become smaller.
    same: dict[str, Any] = {
        "scales": [float(once.scale)], "shifts": [float(once.shift)], "powers": [float(once.power)], "keep": 0.8,
    }  # fmt: skip
    first, _ = fitted(monkeypatch, attack, rounds=0, **same)
    later, _ = fitted(monkeypatch, attack, rounds=2, **same)
    assert float(later.alpha) > float(first.alpha)


def test_errors_are_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"alpha of at least 0\.5 and below 1; it was given 0\.3"):
        mixture(alpha=0.3)
    with pytest.raises(UsageError, match=r"a power of at least 1; it was given 2\.0, 100\.0 and 0\.5"):
        mixture(power=0.5)
    with pytest.raises(UsageError, match="needs a module as its robust classifier; it was given function"):
        Mixed(Toy(), lambda images: images, **NUMBERS)  # type: ignore[arg-type]
    narrow = nn.Sequential(Toy(), nn.Linear(CLASSES, 3))
    with pytest.raises(InputError, match="standard one has 5 and the robust one 3"):
        Mixed(Toy(), narrow, **NUMBERS)(toy_images(2))
    data = toy_data(20)
    with pytest.raises(InputError, match="standard one has 5 and the robust one 3"):
        Mixed.fit(Toy(), narrow, data.images, data.labels, CWLinf(steps=1))
    with pytest.raises(InputError, match="at least 50 images that the robust classifier gets right under attack; of"):
        Mixed.fit(Toy(), Toy(), data.images, data.labels, CWLinf(steps=1))
    with pytest.raises(UsageError, match=r"a share to keep between 0 and 1 and at least 0 rounds; it was given 1\.5"):
        Mixed.fit(Toy(), Toy(), data.images, data.labels, CWLinf(steps=1), keep=1.5)
    monkeypatch.setattr(module, "FEWEST", 2)
    with pytest.raises(InputError, match="found no scale, shift and power"):
        Mixed.fit(Toy(), Toy(), data.images, data.labels, CWLinf(steps=1, eps=1e-4), scales=[1e-9])


def test_its_numbers_travel_with_its_state_and_in_a_saved_defence(tmp_path: Path) -> None:
    mixed, other = Mixed(Toy(), Toy(), **NUMBERS), Mixed(Toy(), Toy(), **{**NUMBERS, "alpha": 0.9})
    check = Defense(mixed, detector=Neighbourhood(steps=1), rule="abstain")
    check.save(tmp_path / "check")
    with pytest.raises(StorageError, match="its weights differ"):
        Defense.load(tmp_path / "check", classifier=other)
    other.load_state_dict(mixed.state_dict())
    assert float(other.alpha) == pytest.approx(0.7)
    again = Defense.load(tmp_path / "check", classifier=other)
    assert torch.equal(again.decide(toy_images(4)).post_logits, check.decide(toy_images(4)).post_logits)


OWN = ["flatten", "unsharpened", "plain", "robust part", "standard part"]


def test_an_evaluation_attacks_the_parts() -> None:
    mixed, threat = Mixed(Toy(), Toy(), **NUMBERS), ThreatModel("Linf", 0.02)
    result = evaluate(mixed, toy_data(3), threat, "adaptive", "quick", diagnostics=False)
    assert [record.name for record in result.attacks if record.name in OWN] == OWN
    assert result.complete, result.unmet
    assert not any(record.failed for record in result.attacks)
    weak = evaluate(mixed, toy_data(3), threat, "paper", "quick", diagnostics=False)
    assert "no attack on the parts of the mixture" in weak.unmet


@pytest.mark.parametrize("defended", [False, True])
def test_the_parts_come_before_attacks_without_gradients_so_that_masking_shows(defended: bool) -> None:
    mixed = Mixed(Toy(), Toy(), **NUMBERS)
    subject = Defense(mixed, detector=Neighbourhood(steps=1), rule="abstain") if defended else mixed
    prepared = prepare(subject, toy_data(3), threat=ThreatModel("Linf", 0.02), budget="quick")
    names = [entry.name for entry in prepared.attacks]
    at = names.index("flatten")
    assert names[at : at + 5] == OWN
    assert at < names.index("query" if defended else "square")
    assert unmet(prepared.subject.traits, list(prepared.attacks)) == []


def test_it_is_public() -> None:
    assert alu.models.Mixed is Mixed
