"""Verdicts against values worked out by hand: the defence beside the bare classifier, image by image."""

from __future__ import annotations

import pytest

from alu.evaluation import metrics
from alu.evaluation.result import Answers, AttackRecord, Result
from alu.evaluation.verdicts import Verdict, bare_share, sentence, verdicts
from alu.stats import Share, sign_test
from tests.unit import results


def answers(outcomes: str, bare: str = "", images: list[int] | None = None) -> Answers:
    """One letter for each image: r(ight), w(rong) or - (rejected); every label is 1."""
    places = list(range(len(outcomes))) if images is None else images
    return Answers(
        places, [int(letter != "w") for letter in outcomes], [letter != "-" for letter in outcomes],
        [letter == "-" for letter in outcomes], bare=[int(letter == "r") for letter in bare],
    )  # fmt: skip


def attack(knowledge: str, outcomes: str, bare: str = "", images: list[int] | None = None) -> AttackRecord:
    return AttackRecord(knowledge, knowledge, "", {}, images is None, answers(outcomes, bare, images))


def result_of(clean: Answers, *attacks: AttackRecord, own: str | None = None, rule: str = "alu") -> Result:
    """A defence, and its classifier under one attack of its own."""

    def made(subject: str, clean: Answers, attacks: list[AttackRecord]) -> Result:
        count = len(clean.images)
        return Result(
            {"name": subject, "rule": rule}, {"name": "d", "split": "test"}, {"norm": "Linf", "eps": 8 / 255},
            "adaptive", "quick", [1] * count, list(range(count)), ["a", "b"], clean, attacks,
            {"seed": 0, "commit": "c", "alu": "0"},
        )  # fmt: skip

    result = made("defence", clean, list(attacks))
    if own is not None:
        bare = answers("".join("r" if answer else "w" for answer in clean.bare))
        result.bare = made("classifier", bare, [attack("adaptive", own)])
    return result


def by_level(result: Result) -> dict[str, Verdict]:
    return {verdict.level: verdict for verdict in verdicts(result)}


def test_each_attacker_meets_both_sides_equally_hard() -> None:
    result = result_of(
        answers("rrrrrrrw", "rrrrrrwr"),
        attack("oblivious", "rrrrrrww", "wrrrrrrr"),
        attack("surrogate", "rrrrwwrr", "wwwwwwww"),  # made for the purifier: no attack on the bare classifier
        attack("adaptive", "wwr", "wwwwwwww"[:3], [0, 1, 2]),
        own="rwrrrwrr",
    )
    found = by_level(result)
    assert list(found) == ["adaptive", "surrogate", "oblivious", "clean"], "who knows most comes first"
    assert (found["clean"].defended, found["clean"].bare) == (Share(7, 8), Share(7, 8))
    assert (found["clean"].only_defended, found["clean"].only_bare, found["clean"].p) == (1, 1, 1.0)
    # Image 0 falls to the oblivious attack, image 6 is wrong clean; the same images, the same attack, both sides.
    assert (found["oblivious"].defended, found["oblivious"].bare) == (Share(6, 8), Share(6, 8))
    assert (found["surrogate"].defended, found["surrogate"].bare) == (Share(4, 8), Share(6, 8))
    # Images 1 and 5 fall to its own attack besides.
    assert (found["adaptive"].defended, found["adaptive"].bare) == (Share(2, 8), Share(4, 8))
    assert bare_share(result) == (Share(4, 8), False)
    assert found["adaptive"].defended == metrics.robust(result)


def test_the_case_that_nobody_saw() -> None:
    kept = "r" * 48 + "ww"
    result = result_of(
        answers("r" * 50, "r" * 50),
        attack("oblivious", "r" * 50, "r" * 50),
        attack("adaptive", "r" * 9 + "w" * 41, "r" * 50),
        own=kept,
    )
    first = result.verdict.splitlines()[0]
    assert first == (
        "Against an attacker who knows it, this defence makes things worse: bare 96.0 %, defended 18.0 % "
        "(n = 50, p < 0.001)."
    )
    assert str(result).splitlines()[0] == first
    result.unmet, result.shard = ["no attack without gradients"], [0, 2]
    lines = str(result).splitlines()
    assert lines[0] == "INCOMPLETE, SHARD 1 OF 2: " + first.replace("defended 18", "defended at most 18")
    assert "INCOMPLETE (no attack without gradients): SHARD 1 OF 2: defence on d/test" in lines[3]


@pytest.mark.parametrize(
    ("only_defended", "only_bare", "word", "says"),
    [
        (6, 0, "helps", "this defence helps"),
        (0, 6, "harms", "this defence makes things worse"),
        (5, 0, "unclear", "this defence cannot be told apart from no defence"),
        (3, 10, "unclear", "this defence cannot be told apart from no defence"),
    ],
)
def test_the_exact_test_decides(only_defended: int, only_bare: int, word: str, says: str) -> None:
    clean = answers("r" * only_defended + "w" * only_bare + "rr", "w" * only_defended + "r" * only_bare + "rr")
    (found,) = verdicts(result_of(clean, own="r" * len(clean.images)))
    assert (found.only_defended, found.only_bare, found.verdict) == (only_defended, only_bare, word)
    assert found.p == sign_test(only_defended, only_bare)
    assert says in sentence(found)
    assert f"p = {found.p:.3f}" in sentence(found)


def test_where_the_rule_rejects_the_sentence_says_what_is_counted() -> None:
    result = result_of(
        answers("rrrrrrr-", "rrrrrrrr"), attack("oblivious", "r-------", "wwwwwwww"), own="rrrrrrrr", rule="abstain"
    )
    found = by_level(result)
    assert (found["oblivious"].defended, found["oblivious"].right, found["oblivious"].bare) == (
        Share(8, 8), Share(1, 8), Share(0, 8),
    )  # fmt: skip
    assert found["oblivious"].verdict == "helps"
    assert sentence(found["oblivious"]) == (
        "Against an attacker who does not know it, this defence helps, counting rejected images as kept: bare 0.0 %, "
        "defended 100.0 % (n = 8, p = 0.008). Correct answers only: defended 12.5 %. Clean images rejected: 12.5 %."
    )
    # Clean, a rejected image is no answer.
    assert found["clean"].defended == Share(7, 8)
    assert "counting" not in sentence(found["clean"])
    assert sentence(found["clean"]).endswith("Clean images rejected: 12.5 %.")


def test_bounds_are_called_so() -> None:
    result = result_of(
        answers("rrrr", "rrrr"),
        attack("oblivious", "rr", "rr", [0, 1]),
        attack("adaptive", "ww", "ww", [0, 1]),
        own="rrww",
    )
    assert by_level(result)["oblivious"].at_most == (True, True)
    assert by_level(result)["clean"].at_most == (False, False)
    result.attacks[0] = attack("oblivious", "rrrr", "rrrr")
    assert by_level(result)["oblivious"].at_most == (False, False)
    assert by_level(result)["adaptive"].at_most == (True, False), "two images that stand met no adaptive attack"
    assert result.bare is not None
    result.bare.unmet = ["no attack without gradients"]
    assert by_level(result)["adaptive"].at_most == (True, True)
    assert "bare at most 50.0 %, defended at most 50.0 %" in result.verdict.splitlines()[0]


def test_an_attacker_none_of_whose_attacks_ran_is_left_out() -> None:
    failed = attack("oblivious", "", "", [])
    failed.failed = "no gradient"
    result = result_of(answers("rr", "rr"), failed, attack("adaptive", "rw", "rr"), own="rr")
    assert list(by_level(result)) == ["adaptive", "clean"]


def test_without_its_own_attacks_nothing_is_claimed_about_one_who_knows() -> None:
    result = result_of(answers("rr", "rr"), attack("oblivious", "rr", "rr"), attack("adaptive", "ww", "rr"))
    assert list(by_level(result)) == ["oblivious", "clean"]
    assert result.verdict.startswith("Against an attacker who knows it, it is not known whether this defence helps")
    bare_model = results.plain(20)
    assert (bare_model.verdict, verdicts(bare_model)) == ("", [])
    assert str(bare_model).startswith("a bare network on cifar10/test")
