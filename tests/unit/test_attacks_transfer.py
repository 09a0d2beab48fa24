"""Transfer: adversarial images of other models."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from alu import Defense
from alu.attacks import MIM, PGD
from alu.attacks.adaptive import Transfer
from alu.attacks.adaptive.transfer import OnAnother
from alu.attacks.goals import fooled
from alu.purifiers import Blur
from tests.toys import CLASSES, NoGradient, Nudged, Toy, toy_data, toy_defense


def test_images_that_the_source_gets_wrong_are_attacked_on_a_deeper_one() -> None:
    data, attack = toy_data(8), Nudged()
    labels = data.labels.clone()
    labels[:3] = (labels[:3] + 1) % CLASSES  # the source is wrong about these
    shallow, deep = Toy(), Toy()
    OnAnother(shallow, attack, deep)(Toy(), data.images, labels)
    assert [(source is shallow, count) for source, count in attack.asked] == [(True, 5), (False, 3)]


@pytest.mark.parametrize(("budget", "momentum", "whole"), [("quick", 0, 0), ("standard", 15, 0), ("full", 15, 15)])
def test_transfer_has_every_source_at_every_strength(budget: str, momentum: int, whole: int) -> None:
    other, defense = Toy(), toy_defense()
    attack = Transfer(others=(other,), eps=0.08, budget=budget)
    tries: list[Any] = list(attack.tries(defense))
    grid = Counter(
        (round(each.attack.threat.eps, 4), each.attack.stop_when_fooled, type(each.attack)) for each in tries
    )
    for eps in (0.01, 0.02, 0.04, 0.06, 0.08):
        assert grid[(eps, False, PGD)] == grid[(eps, True, PGD)] == 3, "f, f(D(E)) and the other network"
    assert sum(count for (_, _, kind), count in grid.items() if kind is MIM) == momentum
    assert sum(each.source is other for each in tries) == len(tries) // 3
    last: list[Any] = list(attack.last_tries(defense))
    assert len(last) == whole
    assert {round(each.attack.threat.eps, 4) for each in last} == ({0.01, 0.02, 0.04, 0.06, 0.08} if whole else set())


def test_a_source_without_gradients_is_skipped() -> None:
    defense, data = Defense(NoGradient(), Blur(0.5), rule="purified"), toy_data(6)
    attack = Transfer(eps=0.1, steps=10, budget="quick", others=(Toy(),))
    assert bool(fooled(defense, attack(defense, data.images, data.labels), data.labels).all())
    assert any("Left out: PGD needs gradients" in note for note in attack.flags_)
