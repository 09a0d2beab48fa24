"""serve/playground: one picture is attacked while somebody watches."""

from __future__ import annotations

import pytest
import torch

from alu.attacks import PGD
from alu.attacks.lattice import on_lattice
from alu.defense import Defense
from alu.detectors import Neighbourhood
from alu.errors import AluError
from alu.serve import playground
from alu.serve.playground import Answer, attacks_on, show
from alu.threat import ThreatModel
from tests.toys import NoGradient, Toy, toy_data, toy_defense

DEFENSE = toy_defense()
DATA = toy_data(20)
PICTURES = (DATA.images * 255).round() / 255


def test_the_frames_are_the_steps_of_the_attack_with_the_logits_there() -> None:
    shown = show(DEFENSE, PICTURES[0], int(DATA.labels[0]), attack="pgd", eps=16 / 255, steps=5)
    assert [frame.step for frame in shown.frames] == [0, 1, 2, 3, 4]
    assert (shown.searches, shown.finished) == (1, True)
    for frame in shown.frames:
        expected = DEFENSE.logits(frame.picture[None])[0]
        torch.testing.assert_close(torch.tensor(frame.logits), expected.detach())
    # What is shown is what the attack returns when nobody watches, on 8 bits.
    alone = PGD(eps=16 / 255, steps=5, lattice=True)(DEFENSE.classifier, PICTURES[:1], DATA.labels[:1])[0]
    assert torch.equal(shown.picture, alone)
    assert bool(on_lattice(shown.picture[None]).all())


def test_long_searches_are_shown_in_strides_from_first_to_last() -> None:
    frames = show(DEFENSE, PICTURES[0], int(DATA.labels[0]), steps=80).frames
    assert len(frames) == playground.MOST_FRAMES
    assert (frames[0].step, frames[-1].step) == (0, 79)


@pytest.mark.parametrize("attack", ["pgd", "decoy", "stealth", "boost"])
def test_everyone_answers_the_picture_that_came_out(attack: str) -> None:
    shown = show(DEFENSE, PICTURES[1], int(DATA.labels[1]), attack=attack, eps=16 / 255, steps=3)
    decision = DEFENSE.decide(shown.picture[None]).to_dict()
    given = shown.answers["defense"]
    assert given == Answer(*(decision[name][0] for name in ("label", "flagged", "state", "score", "p_value")))
    assert shown.answers["bare"].label == int(DEFENSE.logits(shown.picture[None]).argmax())
    check = Defense(DEFENSE.classifier, detector=Neighbourhood(radius=playground.RADIUS), rule="abstain")
    refused = not bool(check.decide(shown.picture[None]).accepted)
    assert (shown.answers["check"].label == -1) == refused
    assert ThreatModel("Linf", 16 / 255).contains(shown.picture[None], PICTURES[1:2], 1e-6).all()


def test_a_check_is_attacked_by_what_aims_at_checks() -> None:
    check = Defense(Toy(), detector=Neighbourhood(radius=2 / 255, steps=3), rule="abstain")
    assert set(attacks_on(check)) & set(attacks_on(DEFENSE)) == set(playground.OBLIVIOUS)
    right = (check.decide(PICTURES).label == DATA.labels) & check.decide(PICTURES).accepted
    at = int(right.nonzero()[0])
    shown = show(check, PICTURES[at], int(DATA.labels[at]), attack="confident", eps=32 / 255, steps=3)
    assert "check" not in shown.answers, "it is the defence itself"
    assert shown.searches >= 1


def test_the_time_is_limited() -> None:
    shown = show(DEFENSE, PICTURES[0], int(DATA.labels[0]), attack="pgd", steps=100, seconds=0.0)
    assert not shown.finished
    assert len(shown.frames) == 1
    assert shown.answers["defense"].label >= 0


def test_a_classifier_without_gradients_has_no_check_beside_it() -> None:
    plain = Defense(NoGradient(), DEFENSE.purifier, DEFENSE.detector)
    assert set(playground.answers_to(plain, PICTURES[:1])) == {"bare", "defense"}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"attack": "stall"}, "attack"),
        ({"label": 99}, "class from 0"),
        ({"eps": 0.0}, "eps"),
        ({"eps": 2.0}, "eps"),
        ({"steps": 0}, "1 to 100 steps"),
        ({"steps": 101}, "1 to 100 steps"),
    ],
)
def test_wrong_requests_are_sentences(changed: dict[str, object], words: str) -> None:
    with pytest.raises(AluError, match=words):
        show(DEFENSE, PICTURES[0], **{"label": 0, **changed})  # type: ignore[arg-type]
