"""What informed attacks aim at, and what an evaluation makes of them: mistakes that would make an opponent weaker."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from alu import Defense
from alu.attacks import CWLinf
from alu.attacks.adaptive import Stealth
from alu.attacks.adaptive.base import AdaptiveAttack
from alu.attacks.adaptive.soft import OnSoft, SoftOutput, standard
from alu.attacks.adaptive.transfer import OnAnother
from alu.attacks.adaptive.view import Level, levels
from alu.attacks.base import Attack
from alu.attacks.catalog import make_attack
from alu.attacks.goals import fooled
from alu.detectors import LogitShift
from alu.errors import AluError, UsageError
from alu.threat import ThreatModel
from tests.toys import CLASSES, Toy, toy_data, toy_defense, toy_images, toy_vae

THREAT = ThreatModel("Linf", 0.05)


class Nudged(Attack):
    """Moves every image a little, and remembers which source it was made on."""

    def __init__(self) -> None:
        super().__init__(eps=0.05)
        self.asked: list[tuple[Any, int]] = []

    def run(self, model: Any, images: Tensor, labels: Tensor, numbers: Sequence[int]) -> Tensor:
        self.asked.append((model, len(images)))
        return (images + 0.01).clamp(0, 1)


def test_images_that_the_source_gets_wrong_are_attacked_on_a_deeper_one() -> None:
    data, attack = toy_data(8), Nudged()
    labels = data.labels.clone()
    labels[:3] = (labels[:3] + 1) % CLASSES  # the source is wrong about these
    shallow, deep = Toy(), Toy()
    OnAnother(shallow, attack, deep)(Toy(), data.images, labels)
    assert [(source is shallow, count) for source, count in attack.asked] == [(True, 5), (False, 3)]


def flagging(factor: float) -> Defense:
    """A defence with rule abstain whose threshold is `factor` times the calibrated one."""
    defense = toy_defense("abstain")
    assert isinstance(defense.detector, LogitShift)
    defense.detector.scores_ = factor * defense.detector.scores_
    return defense


def test_under_abstain_a_flagged_image_is_not_won() -> None:
    data = toy_data(6)
    wrong = (data.labels + 1) % CLASSES
    for factor, won in ((1e-4, False), (1e4, True)):
        output = SoftOutput(flagging(factor), Level(), 0.05)
        # Π is wrong about every one of these labels; only what is not flagged is an answer.
        assert bool((OnSoft(output, CWLinf()).already_wrong(output, data.images, wrong) == won).all())
        assert output.label is None


def test_attacks_under_abstain_are_told_one_class_at_a_time() -> None:
    attack, data = Nudged(), toy_data(8)
    output = SoftOutput(flagging(1.0), Level(), 0.25)
    found = OnSoft(output, attack)(Toy(), data.images, data.labels)
    assert [count for _, count in attack.asked] == data.labels.bincount()[data.labels.bincount() > 0].tolist()
    assert bool((found != data.images).flatten(1).any(1).all())


def test_noise_in_a_change_of_nothing_does_not_drown_the_gradient() -> None:
    defense, images = toy_defense("alu", "reconstruction"), toy_images(4)
    output = SoftOutput(defense, Level("surrogate", 0), 1.0)
    found = []
    for answer in (output, lambda at: standard(output.view.evidence(at).post_logits)):
        at = images.clone().requires_grad_(True)
        logits = answer(at)
        (gradient,) = torch.autograd.grad(logits[:, 0].sum() - logits[:, 1].sum(), at)
        found.append(gradient.flatten(1))
    # With Δ = 0 the gate's branch is flat: what is left is the other branch, smaller.
    assert float(torch.cosine_similarity(*found).min()) > 0.99


def test_the_deployed_number_of_steps_is_attacked_from_several_sides() -> None:
    chosen = [str(level) for level in levels(Defense(Toy(), toy_vae(steps=20), rule="purified"))]
    assert chosen == ["surrogate, N=0", "unrolled, N=5", "unrolled, N=1", "surrogate", "bpda"]


def test_sides_that_a_vae_cannot_divide() -> None:
    class Wide(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return Toy()(images[:, :, :8, :8])

    images = torch.rand((4, 3, 10, 10), generator=torch.Generator().manual_seed(0))
    defense = Defense(Wide(), toy_vae(steps=1), LogitShift(0.05), "abstain", "input").calibrate(
        torch.rand((60, 3, 10, 10), generator=torch.Generator().manual_seed(1))
    )
    labels = defense.decide(images).label
    found = Stealth(eps=0.05, steps=2, budget="quick", weights=(1.0,))(defense, images, labels)
    assert bool(THREAT.contains(found, images).all())


class Touchy(nn.Module):
    """Wrong as soon as an image is brighter than a grey level of 100 by a quarter of a level."""

    purifier = evidence = logits = None

    def decide(self, images: Tensor) -> SimpleNamespace:
        wrong = images.flatten(1).mean(1) > 100.25 / 255
        return SimpleNamespace(label=wrong.long(), accepted=torch.ones_like(wrong))


class Brighter(Attack):
    """Adds so many grey levels."""

    def __init__(self, levels: float) -> None:
        super().__init__(eps=2 / 255)
        self.levels = levels

    def run(self, model: Any, images: Tensor, labels: Tensor, numbers: Sequence[int]) -> Tensor:
        return images + self.levels / 255


class TwoTries(AdaptiveAttack):
    """A little brighter, which rounding undoes; then by a whole level."""

    def tries(self, defense: Any) -> list[Attack]:
        return [Brighter(0.4), Brighter(1.0)]


@pytest.mark.parametrize(("lattice", "moved"), [(True, 1.0), (False, 0.4)])
def test_a_success_that_rounding_undoes_is_none(lattice: bool, moved: float) -> None:
    images, labels = torch.full((2, 3, 4, 4), 100 / 255), torch.zeros(2, dtype=torch.int64)
    found = TwoTries(eps=2 / 255, lattice=lattice)(Touchy(), images, labels)
    torch.testing.assert_close(255 * found, torch.full_like(images, 100 + moved), rtol=0, atol=1e-3)
    assert bool(fooled(Touchy(), found, labels).all())


@pytest.mark.parametrize("name", ["decoy", "hopskipjump", "pgd"])
def test_labels_that_no_class_has(name: str) -> None:
    with pytest.raises(AluError, match="label"):
        make_attack(name, eps=0.05)(toy_defense(), toy_images(2), torch.tensor([0, CLASSES]))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"steps": "abc"}, "of type int; it was given 'abc'"),
        ({"steps": 2.5}, "of type int; it was given 2.5"),
        ({"random_start": 3}, "of type bool"),
        ({"step_size": "big"}, r"of type float \| None"),
    ],
)
def test_settings_of_another_type(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make_attack("pgd", **settings)


def test_an_unknown_budget_of_an_attack() -> None:
    with pytest.raises(UsageError, match="no budget 'quik'"):
        make_attack("decoy", budget="quik")
