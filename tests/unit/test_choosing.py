"""Choosing the rule of a fit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import alu
from alu.choosing import CANDIDATES, Choice, choose
from alu.evaluation.harmless import HARMLESS
from alu.fitting import Plan, fit_and_measure
from alu.purifiers import Purifier
from alu.stats import Share
from tests.toys import toy_asymmetric, toy_data, toy_defense
from tests.unit.test_fitted import Bright, defense_around, half_bright

pytestmark = pytest.mark.filterwarnings("ignore:Harmless changes cost|This defence notices:alu.check.AluWarning")


def shares(*counts: int) -> dict[str, Share]:
    return {kind: Share(count, 100) for kind, count in zip(("clean", "attacked", "changed"), counts, strict=False)}


def test_every_kind_counts_alike_and_the_first_of_equals_is_taken() -> None:
    assert Choice.among({"graded": shares(90, 90, 80), "alu": shares(80, 95, 80)}).rule == "graded"
    assert Choice.among({"graded": shares(92, 10, 85), "purified": shares(86, 65, 80)}).rule == "purified"
    assert Choice.among({"graded": shares(90, 80, 70), "alu": shares(70, 80, 90)}).rule == "graded"


def test_the_sentence_says_what_was_chosen_and_why() -> None:
    choice = Choice.among({"graded": shares(90, 91, 80), "alu": shares(80, 92, 70), "purified": shares(80, 50, 71)})
    assert str(choice) == (
        'Rule "graded" was chosen, because it is right most often on pictures that measure nothing else: 90.0 % clean '
        "(n = 100), 91.0 % under PGD-20 at 8/255 (n = 100), 80.0 % after moderate harmless changes (n = 100). The "
        "others: alu 80.0, 92.0, 70.0; purified 80.0, 50.0, 71.0."
    )


def test_each_rule_is_judged_as_it_would_be_deployed() -> None:
    defense, data = toy_defense("alu"), toy_data(40)
    choice = choose(defense, data, seed=2, device="cpu", watch=lambda *_: None)
    assert tuple(choice.right) == CANDIDATES
    some = data.draw(40, 2)
    attacked = alu.attacks.PGD(eps=8 / 255, steps=20, seed=2)(defense.classifier, some.images, some.labels)
    for rule, found in choice.right.items():
        rival = defense.with_rule(rule)
        assert found["clean"] == Share(int((rival.decide(data.images).label == data.labels).sum()), 40)
        assert found["attacked"] == Share(int((rival.decide(attacked).label == some.labels).sum()), 40)
        changed = [change.apply(data.images) for change in HARMLESS if change.moderate]
        right = sum(int((rival.decide(images).label == data.labels).sum()) for images in changed)
        assert found["changed"] == Share(right, 40 * len(changed))


def test_what_does_not_fit_or_cannot_be_attacked_is_left_out() -> None:
    def quiet(*_: Any) -> None:
        pass

    by_reconstruction = choose(toy_defense("alu", "reconstruction"), toy_data(8), seed=0, device="cpu", watch=quiet)
    assert tuple(by_reconstruction.right) == ("alu", "purified")
    assert tuple(choose(toy_asymmetric(), toy_data(8), seed=0, device="cpu", watch=quiet).right) == ("alu", "purified")

    def remote(images: Tensor) -> Any:
        return Bright()(images).detach().numpy()

    choice = choose(defense_around(remote), half_bright(20), seed=0, device="cpu", watch=quiet)
    assert all(set(found) == {"clean", "changed"} for found in choice.right.values())


class Inverting(Purifier):
    """Turns dark into bright: every purified answer is wrong."""

    def run(self, images: Tensor) -> Tensor:
        return 1 - images


def test_a_fit_chooses_apart_from_what_it_measures_and_keeps_a_rule_that_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from alu import fitting

    seen: list[Tensor] = []
    exact = fitting.choose

    def watched(defense: Any, pictures: Any, **settings: Any) -> Choice:
        seen.append(pictures.indices)
        return exact(defense, pictures, **settings)

    monkeypatch.setattr(fitting, "choose", watched)
    data = half_bright(400)
    plan: dict[str, Any] = {"purifier": Inverting(), "false_alarm": 0.05}
    fitted = fit_and_measure(Bright(), data, plan=Plan(**plan))
    assert fitted.defense.rule == "graded", "the others answer from the purified picture"
    assert fitted.why.startswith('Rule "graded" was chosen')
    assert fitted.clean.deployed.value > 0.6
    measured = fitting.own_part(data.labels, "test")
    assert not set(seen[0].tolist()) & set(measured.tolist())
    assert len(seen[0]) == 60, "20 validation pictures are too few: those of the calibration are taken"
    named = fit_and_measure(Bright(), data, plan=Plan(**plan, rule="alu"))
    assert (named.defense.rule, named.why, len(seen)) == ("alu", "", 1)
    fit_and_measure(Bright(), half_bright(2_000), plan=Plan(**plan))
    assert len(seen[1]) == 100, "of 2,000 pictures 100 validate"
    assert torch.equal(seen[1].sort().values, fitting.own_part(half_bright(2_000).labels, "validation").sort().values)
