"""Methods of others meet the whole adaptive suite: every attack runs on them, and none that their traits oblige is
missing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from alu import Defense
from alu.evaluation.evaluate import evaluate
from alu.purifiers import ADP, SOAP, DiffPure, LongRun, Purifier, ReverseAttack
from alu.threat import ThreatModel
from tests.contracts.parts import small_contrastive, small_energy, small_score
from tests.toys import SHAPE, Toy, quick_attack, toy_data

METHODS: dict[str, Callable[[], Purifier]] = {
    "soap": lambda: SOAP(Toy(), steps=2, radii=2),
    "reverse attack": lambda: ReverseAttack(small_contrastive(SHAPE), steps=2),
    "adp": lambda: ADP(small_score(SHAPE), noise_level=0.02, steps=2, draws=2),
    "diffpure": lambda: DiffPure(small_score(SHAPE), time=0.01, steps=2),
    "long run": lambda: LongRun(small_energy(SHAPE), steps=2, draws=2),
}


@pytest.mark.parametrize("name", list(METHODS))
def test_every_attack_runs_and_none_is_missing(name: str) -> None:
    defense = Defense(Toy(), METHODS[name](), rule="purified")
    result = evaluate(defense, toy_data(3), ThreatModel("Linf", 0.1), "adaptive", "quick", diagnostics=False)
    assert result.unmet == []
    assert {record.name: record.failed for record in result.attacks if record.failed} == {}
    names = [record.name for record in result.attacks]
    assert {"direct", "trajectory", "soft", "transfer", "query"} <= set(names)
    random = name != "soap"
    assert ("bpda-eot" in names) == random
    assert defense.traits.stochastic == random
    assert defense.traits.iterative
    assert (result.clean.steady is not None and bool(result.clean.steady)) == random, "random ones are asked ten times"


@pytest.mark.parametrize("attack", ["Direct", "Trajectory"])
@pytest.mark.parametrize("name", list(METHODS))
def test_attacks_follow_the_steps_of_what_still_stands(name: str, attack: str) -> None:
    defense, data = Defense(Toy(), METHODS[name](), rule="purified"), toy_data(2)
    labels = defense.decide(data.images).label  # right by definition, so that there is something to attack
    adversarial = quick_attack(attack, steps=2, eps=0.001)(defense, data.images, labels)
    assert bool(ThreatModel("Linf", 0.001).contains(adversarial, data.images).all())
    assert not bool((adversarial == data.images).all())
