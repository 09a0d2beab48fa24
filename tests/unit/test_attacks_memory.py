"""What is asked once is not asked again, where that cannot change an answer."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from alu import evaluate
from alu.attacks import fooled, with_grad_mode
from alu.attacks import memory as memory_file
from alu.attacks.adaptive import Direct, Level
from alu.attacks.adaptive.base import GoalSearch
from alu.attacks.adaptive.confident import Ahead
from alu.attacks.adaptive.decoy import WrongLabel
from alu.attacks.adaptive.direct import Deployed
from alu.attacks.adaptive.match import LookAlike
from alu.attacks.adaptive.pattern import RaiseOther
from alu.attacks.adaptive.trajectory import AlongTheWay
from alu.attacks.goals import Averaged
from alu.attacks.memory import Memory, memory_of, remembering
from alu.threat import ThreatModel
from tests.toys import Counted, Toy, toy_data, toy_defense


def test_a_picture_is_asked_about_once_for_each_label() -> None:
    model, data = Counted(), toy_data(6)
    expected = fooled(model, data.images, data.labels)
    model.asked = 0
    with remembering(model, steady=True):
        assert torch.equal(fooled(model, data.images, data.labels), expected)
        assert torch.equal(fooled(model, data.images.flip(0), data.labels.flip(0)), expected.flip(0))
        assert model.asked == 6
        other = (data.labels + 1) % 3
        assert torch.equal(fooled(model, data.images, other), Toy()(data.images).argmax(1) != other)
        assert model.asked == 12
        changed = data.images.clone()
        changed[2, 0, 0, 0] = 1 - changed[2, 0, 0, 0]
        fooled(model, changed, data.labels)
        assert model.asked == 13
    fooled(model, data.images, data.labels)
    assert model.asked == 19, "nothing is kept outside the block"


def test_no_image_at_all_is_still_an_answer() -> None:
    model, data = Toy(), toy_data(2)
    with remembering(model, steady=True):
        assert fooled(model, data.images[:0], data.labels[:0]).shape == (0,)


def test_only_this_very_model_is_remembered_and_only_if_it_is_steady() -> None:
    defense = toy_defense()
    with remembering(defense, steady=True):
        assert memory_of(defense) is not None
        assert memory_of(with_grad_mode(defense, "bpda")) is None
        with remembering(defense, steady=False):
            assert memory_of(defense) is None
        assert memory_of(defense) is not None
    assert memory_of(defense) is None


def test_a_full_memory_forgets_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_file, "MOST", 5)
    model, data = Toy(), toy_data(12)
    expected = fooled(model, data.images, data.labels)
    with remembering(model, steady=True):
        for part in (slice(0, 4), slice(0, 4), slice(2, 7), slice(0, 12)):
            assert torch.equal(fooled(model, data.images[part], data.labels[part]), expected[part])


def test_an_attack_finds_the_same_images_with_fewer_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    defense, data = toy_defense(), toy_data(24)
    asked = [0]
    decide = type(defense).decide

    def counted(self: Any, images: Tensor, *rest: Any) -> Any:
        asked[0] += len(images)
        return decide(self, images, *rest)

    monkeypatch.setattr(type(defense), "decide", counted)
    attack = Direct(eps=0.05, steps=12)
    without = attack(defense, data.images, data.labels)
    before, asked[0] = asked[0], 0
    with remembering(defense, steady=True):
        found = attack(defense, data.images, data.labels)
    assert torch.equal(found, without)
    assert 0 < asked[0] < 0.75 * before


@pytest.mark.parametrize("kind", [Deployed, WrongLabel, RaiseOther, LookAlike, AlongTheWay, Ahead])
def test_a_search_leaves_images_behind_that_it_is_done_with(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They keep what they would have got, and cost no gradient any more."""
    defense, data = toy_defense(), toy_data(30)
    settings: dict[Any, dict[str, Any]] = {
        Deployed: {"level": Level()}, WrongLabel: {"rank": 0}, Ahead: {"level": Level(), "rank": 0},
        RaiseOther: {"penalty": 1.0, "rank": 0, "slack": 0.0, "strict": False},
        LookAlike: {"level": Level(), "rank": 0, "guides": data.images, "guide_labels": data.labels},
        AlongTheWay: {"stations": 1, "drift": 0.1, "through": True},
    }  # fmt: skip
    asked = [0]
    ascent = kind.ascent

    def counted(self: Any, images: Tensor, who: str) -> Any:
        asked[0] += len(images)
        return ascent(self, images, who)

    monkeypatch.setattr(kind, "ascent", counted)
    search = GoalSearch(
        partial(kind, **settings[kind]), "test", eps=0.06, steps=24, step_size=0.004, keep="fooled", momentum=0.3
    )
    found = search(defense, data.images, data.labels)
    some, asked[0] = asked[0], 0
    monkeypatch.setattr(kind, "rows", ())
    assert torch.equal(search(defense, data.images, data.labels), found)
    assert float(fooled(defense, found, data.labels).float().mean()) > 0.1, "there is something to leave behind"
    assert some < 0.9 * asked[0]


def test_a_goal_with_a_tensor_that_it_does_not_name_keeps_all_its_images() -> None:
    defense, data = toy_defense(), toy_data(4)
    goal = Deployed(defense, data.images, data.labels, level=Level())
    chosen = torch.tensor([True, False, True, False])
    fewer = goal.only(chosen)
    assert fewer is not None
    assert torch.equal(fewer.labels, data.labels[chosen])
    goal.extra = torch.ones(4)  # type: ignore[attr-defined]
    assert goal.only(chosen) is None
    assert Averaged([Deployed(defense, data.images, data.labels, level=Level()), goal]).only(chosen) is None


def test_what_a_result_says_is_never_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory that lies ends every search at once, and the result says that nothing was broken."""

    def lie(self: Memory, ask: Any, images: Tensor, labels: Tensor) -> Tensor:
        return torch.ones(len(images), dtype=torch.bool)

    data, threat = toy_data(12), ThreatModel("Linf", 0.1)
    settings: dict[str, Any] = {"diagnostics": False, "bare": False, "budget": "quick"}
    honest = evaluate(toy_defense(), data, threat, **settings)
    assert any(honest.labels[image] != answer for record in honest.attacks if not record.whole
               for image, answer in zip(record.answers.images, record.answers.answer, strict=True))  # fmt: skip
    monkeypatch.setattr(Memory, "fooled", lie)
    result = evaluate(toy_defense(), data, threat, **settings)
    clean = dict(zip(result.clean.images, result.clean.answer, strict=True))
    (direct,) = (record for record in result.attacks if record.name == "direct")
    assert direct.answers.answer == [clean[image] for image in direct.answers.images]
