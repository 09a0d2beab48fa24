"""Verdicts against values worked out by hand, image by image; and a result as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from alu.evaluation import metrics
from alu.evaluation.result import Answers, AttackRecord, Result
from alu.evaluation.verdicts import Verdict, bare_share, headline, sentence, verdicts
from alu.report import write
from alu.stats import Share, sign_test
from tests.unit import results
from tests.unit.pages import read as read_page


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
        Share(7, 8), Share(1, 8), Share(0, 8),
    )  # fmt: skip
    assert found["oblivious"].verdict == "helps"
    assert sentence(found["oblivious"]) == (
        "Against an attacker who does not know it, this defence helps, counting a refusal under attack as kept: bare "
        "0.0 %, defended 87.5 % (n = 8, p = 0.016). Correct answers only: defended 12.5 %. "
        "Clean images rejected: 12.5 %."
    )
    # Clean, a rejected image is no answer, and it stays lost under attack.
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


def test_the_first_line_says_what_was_judged_and_what_is_missing() -> None:
    result = results.result(20)
    judged = "VAE + ALU on cifar10/test, Linf eps 8/255, suite adaptive, budget quick"
    assert headline(result) == judged
    result.unmet, result.shard = ["no attack without gradients"], [1, 3]
    assert headline(result) == f"INCOMPLETE (no attack without gradients): SHARD 2 OF 3: {judged}"
    lines = str(result).splitlines()
    assert lines[0].startswith("INCOMPLETE, SHARD 2 OF 3: Against an attacker who knows it, this defence ")
    assert lines[:4] == f"INCOMPLETE, SHARD 2 OF 3: {result.verdict}".splitlines()
    assert lines[4] == headline(result)
    model = results.plain(20)
    model.unmet = ["no attack without gradients"]
    assert str(model).splitlines()[0] == headline(model)


def test_print_names_both_protocols_and_every_attack() -> None:
    result = results.result(20)
    result.attacks[-1].failed = "the model has no gradient."
    text = str(result)
    assert "standard protocol" in text
    assert "paper protocol" in text
    for record in result.attacks:
        assert f"\n{record.name} ({record.knowledge})" in text
    assert "could not run: the model has no gradient." in text
    assert "diagnostic more-steps: failed." in text


def test_print_says_nothing_of_flags_without_a_detector() -> None:
    row = next(line for line in str(results.plain(20)).splitlines() if line.startswith("fgsm"))
    assert row.rstrip().endswith("]")


def test_the_mean_over_draws_stands_beside_the_worst(tmp_path: Path) -> None:
    result = results.result(10)
    result.clean.steady = [1.0] * 8 + [0.5, 0.0]
    first, second = result.attacks[0].answers, result.attacks[1].answers
    first.steady, second.steady = [0.9] * 5 + [1.0] * 5, [0.4] * 2 + [1.0] * 8
    for record in result.attacks[2:]:
        record.answers.steady = []
    # Each image under the attack that lowers its own share most: 0.4, 0.4, 0.9, 0.9, 0.9, 1, 1, 1, 0.5, 0.
    assert metrics.over_draws(result) == pytest.approx((0.85, 0.7))
    assert metrics.right_draws(result) == (result.clean.steady, [0.4, 0.4, 0.9, 0.9, 0.9, 1.0, 1.0, 1.0, 0.5, 0.0])
    assert "mean over draws           clean 85.0 %, robust at most 70.0 %" in str(result)
    write([result], tmp_path / "page.html")
    figures = {key: text for key, (_, text) in read_page((tmp_path / "page.html").read_text()).figures.items()}
    assert [text for key, text in figures.items() if "/draws/" in key] == ["85.0 %", "70.0 %"]
    assert metrics.over_draws(results.result(10)) is None
    assert "mean over draws" not in str(results.result(10))
