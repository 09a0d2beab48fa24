"""attacks/watching: the steps of a search are seen as they are made."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from alu.attacks import PGD, adaptive, watched
from tests.toys import Toy, toy_data, toy_defense

DATA = toy_data(3)


def test_each_step_is_seen_with_the_images_it_starts_from() -> None:
    seen: list[tuple[str, int, Tensor]] = []
    attack = PGD(steps=3, random_start=False)
    with watched(lambda *step: seen.append(step)):
        adversarial = attack(Toy(), DATA.images, DATA.labels)
    assert [(name, step) for name, step, _ in seen] == [("PGD", 0), ("PGD", 1), ("PGD", 2)]
    assert torch.equal(seen[0][2], DATA.images)
    assert not any(at.requires_grad for _, _, at in seen)
    # The second step starts where an attack of one step ends.
    shorter = PGD(steps=1, step_size=attack.step_size, random_start=False)(Toy(), DATA.images, DATA.labels)
    assert torch.equal(seen[1][2], shorter)
    assert torch.equal(adversarial, attack(Toy(), DATA.images, DATA.labels)), "watching changes nothing"
    assert len(seen) == 3, "nobody watches after the block"


def test_searches_inside_an_adaptive_attack_are_seen_under_its_name() -> None:
    seen: list[tuple[str, int]] = []
    defense = toy_defense()
    with watched(lambda name, step, _: seen.append((name, step))):
        adaptive.Decoy(steps=2, targets=1, budget="quick")(defense, DATA.images, DATA.labels)
    assert set(seen) == {("Decoy", 0), ("Decoy", 1)}


def test_an_error_of_the_watcher_ends_the_attack() -> None:
    class Enough(Exception):
        pass

    def stop(_: str, step: int, __: Tensor) -> None:
        if step == 1:
            raise Enough

    with pytest.raises(Enough), watched(stop):
        PGD(steps=5)(Toy(), DATA.images, DATA.labels)
