"""States, and the rule that answers by them."""

from __future__ import annotations

import json

import pytest
import torch

from alu.decision import Evidence, Findings, State, find_rule
from tests.toys import toy_defense, toy_images

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
    # p-values: flagged up to 5 %, suspicious up to four times that.
    unflagged = (decision.p_value > 0.05) & (decision.p_value <= 0.2)
    assert torch.equal(decision.state == State.SUSPICIOUS, unflagged)
    assert torch.equal(decision.state == State.ATTACKED, decision.flagged)
