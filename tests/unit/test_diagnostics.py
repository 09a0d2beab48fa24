"""Diagnostics: every planted fault is caught by the one that is meant for it, and a sound classifier sets off none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor

from alu.attacks import PGD
from alu.attacks.base import Attack
from alu.detectors import LogitShift
from alu.evaluation.run import evaluate
from alu.evaluation.suite import Entry
from alu.purifiers import Blur
from alu.rng import uniform_per_image
from alu.threat import ThreatModel
from tests.conftest import ROOT
from tests.unit.toys import (
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
    return [item.id for item in result.diagnostics if item.verdict == "failed"]


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
    verdicts = {item.id: item.verdict for item in result.diagnostics}
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
    from alu.evaluation.probes import restarts
    from alu.evaluation.subject import Subject

    data = toy_data(60)
    settings: dict[str, Any] = {"eps": 0.04, "steps": 1, "step_size": 0.001}
    sound, forgetful = ((lambda count, kind=kind: kind(restarts=count, **settings)) for kind in (PGD, LastRestart))
    verdicts = [
        restarts(Subject(Toy()), data.images, data.labels, makers).verdict
        for makers in ([sound], [forgetful], [sound, forgetful])
    ]
    assert verdicts == ["passed", "failed", "failed"]
    # In a whole evaluation it is the attack given by the user that is asked.
    result = evaluate(
        Toy(), toy_data(60), ThreatModel("Linf", 0.16), "paper", "quick",
        extra=(Entry("mine", "adaptive", "", LastRestart(eps=0.16)),),
    )  # fmt: skip
    (found,) = (item for item in result.diagnostics if item.id == "restarts")
    assert found.verdict == "failed"
    assert "LastRestart: 10 with 1" in found.says


def test_every_diagnostic_is_explained() -> None:
    text = (ROOT / "docs" / "diagnostics.md").read_text()
    result = evaluate(toy_defense(), toy_data(4), THREAT, budget="quick")
    for item in result.diagnostics:
        assert f"## {item.id}\n" in text, item.id
