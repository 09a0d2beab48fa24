"""Subjects: their answers, what these are compared with, what they cost, and which images they read."""

from __future__ import annotations

from itertools import cycle
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from alu import Defense
from alu.attacks import PGD
from alu.detectors import LogitShift
from alu.errors import InputError
from alu.evaluation.evaluate import evaluate
from alu.evaluation.result import Answers, AttackRecord
from alu.evaluation.subject import Subject
from alu.purifiers import Blur, LatentVAE
from alu.threat import ThreatModel
from tests.toys import Toy, sampled, toy_data, toy_defense, toy_images

THREAT = ThreatModel("Linf", 0.1)


def test_other_answers_are_those_of_their_parts() -> None:
    defense, data = toy_defense(), toy_data(60)
    images = PGD(eps=0.1, steps=5)(Toy(), data.images, data.labels)
    answers = Subject(defense).answers(images, data.labels, range(60))
    with torch.no_grad():
        assert answers.bare == Toy()(images).argmax(1).tolist()
        assert answers.purified == Toy()(defense.purifier(images)).argmax(1).tolist()
        assert answers.control == Toy()(Blur(sigma=0.5)(images)).argmax(1).tolist()
    assert answers.bare != answers.purified
    assert answers.purified != answers.answer


def test_resubmissions_are_fresh_draws() -> None:
    class Noisy(LatentVAE):
        """One that turns every second draw's images over."""

        def run(self, images: torch.Tensor) -> torch.Tensor:
            return images if self.seed == 0 else 1 - images

        def _exact(self, images: torch.Tensor, reconstruct: bool):  # type: ignore[no-untyped-def]
            from alu.purifiers.base import Purification

            return Purification(self.run(images))

    defense = Defense(Toy(), Noisy(sampled().vae, steps=0, start="sampled"), rule="purified")
    result = evaluate(defense, toy_data(6), ThreatModel("Linf", 0.01), "oblivious", "quick", diagnostics=False)
    assert min(result.clean.steady) <= 0.2, "only the deployed draw of ten leaves the image as it is"
    assert result.clean_accuracy < 1.0, "the worst of ten counts"


class Scripted(nn.Module):
    """A defence whose draws answer as they are told: the label or None (rejected) of each draw in turn."""

    def __init__(self, answers: list[int | None]) -> None:
        super().__init__()
        self.answers = cycle(answers)  # shared by copies, as a stream of random numbers would be

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.one_hot(self.decide(images).label, 2).float()

    def decide(self, images: torch.Tensor) -> SimpleNamespace:
        told = next(self.answers)
        count = len(images)
        label = torch.full((count,), 0 if told is None else told)
        return SimpleNamespace(label=label, accepted=torch.full((count,), told is not None))


@pytest.mark.parametrize(
    ("draws", "answer", "accepted", "steady"),
    [
        ([None] * 3 + [1] * 7, -1, True, 0.0),
        ([0] * 3 + [None] * 7, 0, False, 0.3),
        ([0] * 10, 0, True, 1.0),
        ([0] * 9 + [1], -1, True, 0.9),
    ],
)
def test_the_worst_draw_counts(draws: list[int | None], answer: int, accepted: bool, steady: float) -> None:
    subject = Subject(Scripted(draws))
    first = draws[0]
    answers = Answers(images=[0], answer=[0 if first is None else first], accepted=[first is not None])
    subject._resubmit(torch.zeros(1, 3, 4, 4), torch.tensor([0]), answers)
    assert (answers.answer, answers.accepted) == ([answer], [accepted])
    assert answers.steady == pytest.approx([steady])


def test_two_fits_of_one_defence_are_not_taken_for_one() -> None:
    known = Subject(toy_defense()).as_json()
    assert Subject(toy_defense()).as_json() == known
    other = Subject(Defense(Toy(), Blur(0.5), LogitShift(0.05)).calibrate(toy_images(60, seed=10))).as_json()
    assert {key for key in known if known[key] != other[key]} == {"parts_sha256"}
    wider = Subject(Defense(Toy(), Blur(0.7), LogitShift(0.05)).calibrate(toy_images(60, seed=9))).as_json()
    assert wider["parts_sha256"] != known["parts_sha256"]


class InObject(Toy):
    """Answers as models of other libraries do: an object with `.logits`."""

    def forward(self, images: torch.Tensor) -> Any:
        return SimpleNamespace(logits=super().forward(images))


class InDict(Toy):
    """A dict with "logits"."""

    def forward(self, images: torch.Tensor) -> Any:
        return {"logits": super().forward(images), "hidden": None}


@pytest.mark.parametrize("kind", [Toy, InObject, InDict])
def test_passes_are_counted_whatever_holds_the_logits(kind: type[nn.Module]) -> None:
    data = toy_data(3)
    for subject in (Subject(kind()), Subject(Defense(kind(), Blur(0.5), rule="purified"))):
        cost = AttackRecord("pgd", "adaptive", "", {}, whole=True)
        with subject.counted(cost):
            PGD(eps=0.1, steps=4)(subject.logits, data.images, data.labels)
        assert (cost.forwards, cost.backwards) == (12, 12)


def test_what_it_reads_is_checked_before_anything_is_measured() -> None:
    data, classes = toy_data(3), ["a"] * 5
    assert Subject(Toy()).check(data.images, "toys", data.classes) == 5
    assert Subject(Toy()).check(data.images, "toys", None) == 5
    assert Subject(toy_defense()).check(data.images, "toys", classes) == 5
    with pytest.raises(InputError, match="Toy answers with 5 classes, but toys has 2: a, b. Their number"):
        Subject(Toy()).check(data.images, "toys", ["a", "b"])
    with pytest.raises(InputError, match="reads images of 3 x 8 x 8 .*; those in toys are 3 x 4 x 8"):
        Subject(toy_defense()).check(data.images[:, :, ::2], "toys", classes)


def test_the_width_identifies_a_defence_whose_answers_depend_on_it() -> None:
    narrow, wide = (Subject(toy_defense("graded", suspicious=width)) for width in (0.1, 0.2))
    assert (narrow.as_json()["suspicious"], wide.as_json()["suspicious"]) == (0.1, 0.2)
    assert narrow.name == "Toy + Blur, rule graded, suspicious up to 10 % (input)"
    plain = Subject(toy_defense("alu"))
    assert "suspicious" not in plain.as_json()
    assert plain.name == "Toy + Blur, rule alu (input)"
