"""Diagnostics: every planted fault is caught by the one that is meant for it, and a sound classifier sets off none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from alu import Defense
from alu.attacks import PGD
from alu.attacks.adaptive import Direct
from alu.attacks.base import Attack
from alu.attacks.goals import fooled
from alu.detectors import LogitShift
from alu.evaluation.diagnostics import from_curves
from alu.evaluation.evaluate import evaluate
from alu.evaluation.probes import measure_curves, restarts
from alu.evaluation.subject import Subject
from alu.evaluation.suite import Entry
from alu.purifiers import Blur, Purifier
from alu.purifiers.base import Purification
from alu.rng import generator, uniform_per_image
from alu.threat import ThreatModel
from tests.conftest import ROOT
from tests.toys import (
    BatchPeeking,
    ConstantGradient,
    Detached,
    NoisyInTheDark,
    Reseeding,
    Toy,
    toy_data,
    toy_defense,
    toy_images,
)
from tests.unit import results

THREAT = ThreatModel("Linf", 0.1)


FAULTS: dict[str, tuple[str, Callable[[], Any]]] = {
    "constant gradient": ("gradients-mislead", ConstantGradient),
    "reseeding forward": ("reseeding", Reseeding),
    "batch-peeking purifier": ("batch-size", lambda: toy_defense("purified", purifier=BatchPeeking(0.5))),
    "detached purifier": (
        "gradients-usable",
        lambda: Detached(Toy(), Blur(0.5), LogitShift(0.05)).calibrate(toy_images(60, seed=9)),
    ),
    "noise only without gradients": ("gradients-on", NoisyInTheDark),
}


def failed(model: Any, count: int = 24, **settings: Any) -> list[str]:
    result = evaluate(model, toy_data(count), THREAT, "paper", "quick", **settings)
    return [item.id for item in result.diagnostics if item.status == "failed"]


@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_planted_fault_is_caught(fault: str) -> None:
    id, make = FAULTS[fault]
    assert id in failed(make())


@pytest.mark.parametrize("make", [Toy, toy_defense], ids=["undefended", "defended"])
def test_what_is_sound_sets_off_nothing_about_itself(make: Callable[[], Any]) -> None:
    broken = {"gradients-mislead", "gradients-usable", "reseeding", "batch-size", "batch-order", "second-call"}
    assert not broken & set(failed(make()))


class TooFar(Attack):
    """Forgets the ball; not a subclass's fault that can survive the base class, so it skips that too."""

    def run(self, model: Any, images: Tensor, labels: Tensor, numbers: Any) -> Tensor:
        return images

    def __call__(self, model: Any, images: Tensor, labels: Tensor, *rest: Any, **named: Any) -> Tensor:
        return (images + 0.5).clamp(0, 1)


def test_images_outside_the_ball_are_seen() -> None:
    assert "left-the-ball" in failed(Toy(), extra=(Entry("far", "adaptive", "", TooFar(eps=0.1), whole=True),))


class Lucky(Attack):
    """A query attack that finds what gradients missed: an image of another class."""

    def run(self, model: Any, images: Tensor, labels: Tensor, numbers: Any) -> Tensor:
        noise = uniform_per_image(list(numbers), tuple(images.shape[1:]), 0, "lucky").sign()
        return images + 0.1 * noise


def test_a_query_attack_that_still_breaks_something_is_seen() -> None:
    class Masked(Toy):
        def forward(self, images: Tensor) -> Tensor:
            # Rounded logits: the gradient is lost, noise is not.
            return super().forward(images).round()

    result = evaluate(Masked(), toy_data(24), ThreatModel("Linf", 0.1), "paper", "quick", extra=(
        Entry("query", "adaptive", "", Lucky(eps=0.1)),
    ))  # fmt: skip
    verdicts = {item.id: item.status for item in result.diagnostics}
    assert verdicts["gradients-usable"] == "failed"
    assert verdicts["black-box"] == "failed"


class LastRestart(PGD):
    """Keeps the last restart, whatever it found."""

    def run(self, model: Any, images: Tensor, labels: Tensor, numbers: Any) -> Tensor:
        goal = self.goal(model, images, labels)
        for restart in range(self.restarts):
            found, _ = self._search(goal, images, numbers, restart)
        return found


def test_an_attack_that_forgets_its_earlier_restarts_is_seen() -> None:
    data = toy_data(60)
    sound, forgetful = PGD(eps=0.16), LastRestart(eps=0.16)
    verdicts = [
        restarts(Subject(Toy()), data.images, data.labels, attacks).status
        for attacks in ([sound], [forgetful], [sound, forgetful])
    ]
    assert verdicts == ["passed", "failed", "failed"]
    # In a whole evaluation it is the attack given by the user that is asked.
    result = evaluate(
        Toy(), toy_data(60), ThreatModel("Linf", 0.16), "paper", "quick",
        extra=(Entry("mine", "adaptive", "", LastRestart(eps=0.16)),),
    )  # fmt: skip
    (found,) = (item for item in result.diagnostics if item.id == "restarts")
    assert found.status == "failed"
    assert "LastRestart: 10 with 1" in found.says


def test_every_diagnostic_is_explained() -> None:
    text = (ROOT / "docs" / "diagnostics.md").read_text()
    result = evaluate(toy_defense(), toy_data(4), THREAT, budget="quick")
    for item in result.diagnostics:
        assert f"## {item.id}\n" in text, item.id


def curves(eps: list[int], steps: list[int], restarts: list[int]) -> dict[str, Any]:
    sizes = (0.025, 0.05, 0.1, 0.2, 0.25)
    return {
        "eps": [{"eps": size, "right": right, "n": 32} for size, right in zip(sizes, eps, strict=True)],
        "steps": [{"steps": count, "right": right, "n": 32} for count, right in zip((5, 20, 60), steps, strict=True)],
        "restarts": [
            {"restarts": count, "right": right, "n": 32} for count, right in zip((1, 4), restarts, strict=True)
        ],
    }


@pytest.mark.parametrize(
    ("id", "eps", "steps", "restarts"),
    [
        ("", [9, 6, 3, 1, 0], [4, 3, 2], [3, 2]),
        ("eps-monotone", [9, 6, 8, 1, 0], [4, 3, 2], [3, 2]),
        ("eps-large", [9, 6, 3, 3, 3], [4, 3, 2], [3, 2]),
        ("more-steps", [9, 6, 3, 1, 0], [9, 6, 3], [3, 2]),
        ("more-restarts", [9, 6, 3, 1, 0], [4, 3, 2], [6, 3]),
    ],
)
def test_curves_that_should_not_be(id: str, eps: list[int], steps: list[int], restarts: list[int]) -> None:
    found = from_curves(curves(eps, steps, restarts), THREAT.norm)
    assert [item.id for item in found if item.status == "failed"] == ([id] if id else [])


class Wall(Purifier):
    """Changes nothing, and hands back a gradient that has nothing to do with it."""

    def run(self, images: Tensor) -> Tensor:
        return images

    def differentiated(self, images: Tensor, grad_mode: str, reconstruct: bool) -> Purification:
        class Garbage(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, images: Tensor) -> Tensor:
                return images.clone()

            @staticmethod
            def backward(ctx: Any, *grads: Tensor) -> Tensor:
                return torch.randn(grads[0].shape, generator=generator(1, "garbage")) * grads[0].abs().mean()

        return Purification(Garbage.apply(images))  # type: ignore[no-untyped-call]


def test_images_of_the_bare_classifier_that_beat_the_gradient_are_seen() -> None:
    data = toy_data(24)
    defense = Defense(Toy(), Wall(), rule="purified")
    own = Direct(eps=0.1, steps=20, budget="quick")(defense, data.images, data.labels)
    carried = PGD(eps=0.1)(Toy(), data.images, data.labels)
    counts = [int(fooled(defense, images, data.labels).sum()) for images in (own, carried)]
    assert counts[0] + 5 < counts[1]
    assert results.status(evaluate(defense, data, THREAT, "paper", "quick"), "oblivious")[0] == "failed"
    sound = Defense(Toy(), Blur(0.5), rule="purified")
    assert results.status(evaluate(sound, data, THREAT, "paper", "quick"), "oblivious")[0] == "passed"
    assert results.status(evaluate(Toy(), data, THREAT, "paper", "quick"), "oblivious")[0] == "not run"


class Probabilities(Toy):
    """What AutoAttack warns of."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images).softmax(1)


@pytest.mark.filterwarnings("ignore::alu.check.AluWarning")
def test_what_autoattack_says_about_a_defence_is_not_lost() -> None:
    defense = Defense(Probabilities(), Blur(0.5), rule="purified")
    result = evaluate(defense, toy_data(6), THREAT, "oblivious", "standard")
    assert "probability distribution" in results.status(result, "autoattack-flags")[1]
    assert results.status(result, "autoattack-flags")[0] == "failed"


@pytest.mark.parametrize("eps", [0.002, 0.3])
def test_autoattack_that_saw_no_image_has_no_opinion(eps: float) -> None:
    result = evaluate(Toy(), toy_data(6), ThreatModel("Linf", eps), "adaptive", "standard")
    seen = any(record.answers.images for record in result.attacks if record.name == "autoattack")
    assert seen == (eps < 0.1)
    assert results.status(result, "autoattack-flags")[0] == ("passed" if seen else "not run")


def test_curves_go_from_small_to_large_even_where_the_ball_is_wide() -> None:
    # Twice this eps is more than what the last point is meant to be.
    threat, data = ThreatModel("Linf", 0.2), toy_data(8)
    curves = measure_curves(Subject(Toy()), data.images, data.labels, threat, 0)
    sizes = [point["eps"] for point in curves["eps"]]
    assert sizes == sorted(sizes)
    assert max(sizes) == pytest.approx(0.4)
    kept = {point["eps"]: point["right"] for point in curves["eps"]}
    assert kept[threat.eps] == sum(not row["broken"] for row in curves["probed"])
