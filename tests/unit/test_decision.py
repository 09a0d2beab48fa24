"""States, and the rule that answers by them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from alu import Defense
from alu.decision import Evidence, Findings, find_rule
from alu.detectors import LogitShift
from alu.errors import UsageError
from alu.purifiers import Blur
from alu.state import State
from alu.storage import read_json, write_checked
from tests.toys import Toy, toy_defense, toy_images

FLAGS = torch.tensor([False, False, True, True, False, False, True])
NEARLY = torch.tensor([False, True, True, True, False, True, True])
NOISY = torch.tensor([False, False, False, True, True, False, True])
SPECKED = torch.tensor([False, False, False, False, True, True, False])


def findings() -> Findings:
    return Findings.of(FLAGS, NEARLY, NOISY, SPECKED)


def test_a_later_state_overrides_an_earlier_one() -> None:
    words = [State(state).word for state in findings().state.tolist()]
    assert words == ["clean", "suspicious", "attacked", "corrupted", "corrupted", "corrupted", "corrupted"]


def test_graded_answers_by_the_state() -> None:
    generator = torch.Generator().manual_seed(0)
    before, after = torch.randn((2, 7, 4), generator=generator)
    images = torch.zeros((7, 1, 2, 2))
    evidence = Evidence(images, images, before, after)
    answer = find_rule("graded").logits(evidence, findings())
    change = after - before
    # Clean: itself. Suspicious: purified. Attacked: the change. Noisy: purified, specks or not. Specks alone: itself.
    expected = [before[0], after[1], change[2], after[3], after[4], before[5], after[6]]
    assert torch.equal(answer, torch.stack(expected))


def test_plain_values_have_the_state_in_words() -> None:
    defense, images = toy_defense("graded"), toy_images(12)
    decision = defense.decide(images)
    assert {"clean", "suspicious", "attacked"} == {State(state).word for state in decision.state.tolist()}
    plain = json.loads(json.dumps(decision.to_dict()))
    assert plain["state"] == [State(state).word for state in decision.state.tolist()]
    assert decision[4].to_dict()["state"] == plain["state"][4]


@pytest.mark.parametrize("rule", ["alu", "purified", "abstain", "graded"])
def test_the_state_does_not_depend_on_the_rule(rule: str) -> None:
    images = toy_images(12)
    expected = toy_defense("graded").decide(images)
    decision = toy_defense(rule).decide(images)
    assert torch.equal(decision.state, expected.state)
    # p-values: flagged up to 5 %, suspicious up to 20 %.
    unflagged = (decision.p_value > 0.05) & (decision.p_value <= 0.2)
    assert torch.equal(decision.state == State.SUSPICIOUS, unflagged)
    assert torch.equal(decision.state == State.ATTACKED, decision.flagged)


@pytest.mark.parametrize("width", [0.0, 0.02, 0.05, 0.1, 0.5])
def test_the_width_of_the_middle_zone_is_a_setting(width: float) -> None:
    defense, images = toy_defense("graded", suspicious=width), toy_images(60)
    decision = defense.decide(images)
    p_value, state = decision.p_value, decision.state
    between = (p_value > 0.05) & (p_value <= width) & (state != State.CORRUPTED)
    assert torch.equal(state == State.SUSPICIOUS, between)
    assert bool(between.any()) == (width > 0.05), "up to the false-alarm rate, 5 %, an image is flagged"
    assert torch.equal(decision.label[between], decision.post_logits.argmax(1)[between])
    assert torch.equal(defense.with_rule("alu").decide(images).state, state)
    other = defense.with_rule("graded", 0.3)
    assert (other.suspicious, defense.suspicious) == (0.3, width)


def test_the_width_is_saved_and_folders_without_one_get_two_percent(tmp_path: Path) -> None:
    defense = toy_defense("graded", suspicious=0.1)
    defense.save(tmp_path / "saved")
    assert Defense.load(tmp_path / "saved", classifier=defense.classifier).suspicious == 0.1
    place = tmp_path / "saved" / "defense.json"
    facts = read_json(place)
    assert facts.pop("suspicious") == 0.1
    write_checked(place, {name: value for name, value in facts.items() if name != "checksum"})
    assert Defense.load(tmp_path / "saved", classifier=defense.classifier).suspicious == 0.02
    assert Defense(Toy(), Blur(0.5), LogitShift()).suspicious == 0.02


@pytest.mark.parametrize("width", [-0.01, 1.0, 2, float("nan")])
def test_a_width_that_is_no_p_value_is_refused(width: float) -> None:
    with pytest.raises(UsageError, match=r"suspicious is the p-value .* below 1, such as 0.02; it is .*Rule 'alu'"):
        toy_defense("graded", suspicious=width)
