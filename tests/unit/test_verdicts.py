"""Verdicts against values worked out by hand: the defence beside the bare classifier, image by image."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from alu import Defense
from alu.evaluation import metrics
from alu.evaluation.result import AttackRecord, Judged, Result
from alu.evaluation.run import evaluate
from alu.evaluation.verdicts import Verdict, bare_share, sentence, verdicts
from alu.purifiers import Blur
from alu.stats import Share
from alu.threat import ThreatModel
from tests.unit import results
from tests.unit.toys import Toy, toy_data, toy_defense


def answers(outcomes: str, bare: str = "", images: list[int] | None = None) -> Judged:
    """One letter for each image: r(ight), w(rong) or - (rejected); every label is 1."""
    places = list(range(len(outcomes))) if images is None else images
    return Judged(
        places, [int(letter != "w") for letter in outcomes], [letter != "-" for letter in outcomes],
        [letter == "-" for letter in outcomes], bare=[int(letter == "r") for letter in bare],
    )  # fmt: skip


def attack(knowledge: str, outcomes: str, bare: str = "", images: list[int] | None = None) -> AttackRecord:
    return AttackRecord(knowledge, knowledge, "", {}, images is None, answers(outcomes, bare, images))


def judged(clean: Judged, *attacks: AttackRecord, own: str | None = None, rule: str = "alu") -> Result:
    """A defence, and its classifier under one attack of its own."""

    def made(subject: str, clean: Judged, attacks: list[AttackRecord]) -> Result:
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
    result = judged(
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
    result = judged(
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
        (5, 0, "unclear", "cannot be told apart from no defence"),
        (3, 10, "unclear", "cannot be told apart from no defence"),
    ],
)
def test_the_exact_test_decides(only_defended: int, only_bare: int, word: str, says: str) -> None:
    clean = answers("r" * only_defended + "w" * only_bare + "rr", "w" * only_defended + "r" * only_bare + "rr")
    (found,) = verdicts(judged(clean, own="r" * len(clean.images)))
    assert (found.only_defended, found.only_bare, found.verdict) == (only_defended, only_bare, word)
    assert found.p == metrics.sign_test(only_defended, only_bare)
    assert says in sentence(found)
    assert f"p = {found.p:.3f}" in sentence(found)


def test_where_the_rule_rejects_the_sentence_says_what_is_counted() -> None:
    result = judged(
        answers("rrrrrrr-", "rrrrrrrr"), attack("oblivious", "r-------", "wwwwwwww"), own="rrrrrrrr", rule="abstain"
    )
    found = by_level(result)
    assert (found["oblivious"].defended, found["oblivious"].right, found["oblivious"].bare) == (
        Share(8, 8), Share(1, 8), Share(0, 8),
    )  # fmt: skip
    assert found["oblivious"].verdict == "helps"
    assert sentence(found["oblivious"]) == (
        "Against an attacker who does not know it, this defence helps, counting rejected images as kept: bare 0.0 %, "
        "defended 100.0 % (n = 8, p = 0.008). Right answers alone: defended 12.5 %. Clean images rejected: 12.5 %."
    )
    # Clean, a rejected image is no answer.
    assert found["clean"].defended == Share(7, 8)
    assert "counting" not in sentence(found["clean"])
    assert sentence(found["clean"]).endswith("Clean images rejected: 12.5 %.")


def test_bounds_are_called_so() -> None:
    result = judged(
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
    result = judged(answers("rr", "rr"), failed, attack("adaptive", "rw", "rr"), own="rr")
    assert list(by_level(result)) == ["adaptive", "clean"]


def test_without_its_own_attacks_nothing_is_claimed_about_one_who_knows() -> None:
    result = judged(answers("rr", "rr"), attack("oblivious", "rr", "rr"), attack("adaptive", "ww", "rr"))
    assert list(by_level(result)) == ["oblivious", "clean"]
    assert result.verdict.startswith("Against an attacker who knows it, it is not known whether this defence helps")
    bare_model = results.plain(20)
    assert (bare_model.verdict, verdicts(bare_model)) == ("", [])
    assert str(bare_model).startswith("a bare network on cifar10/test")


THREAT = ThreatModel("Linf", 0.03)


def test_an_evaluation_attacks_the_classifier_too() -> None:
    data = toy_data(12)
    result = evaluate(toy_defense(), data, THREAT, budget="quick", diagnostics=False)
    alone = evaluate(Toy(), data, THREAT, budget="quick", diagnostics=False)
    assert result.bare is not None
    assert [record.judged for record in result.bare.attacks] == [record.judged for record in alone.attacks]
    assert (result.bare.clean, result.bare.subject, result.bare.diagnostics) == (alone.clean, alone.subject, [])
    assert result.bare.clean.answer == result.clean.bare
    assert result.bare.attacks[0].name == "pgd-20"
    assert str(result).startswith("Against an attacker who knows it, ")
    assert f"bare classifier           {bare_share(result)[0]}   under its own attacks: pgd-20, cw-linf" in str(result)
    assert alone.bare is None
    assert evaluate(toy_defense(), data, THREAT, budget="quick", diagnostics=False, bare=False).bare is None


class Fused(Toy):
    """Stops the whole evaluation at a call, as a killed process would."""

    calls, last = 0, 0

    def forward(self, images: Tensor) -> Tensor:
        type(self).calls += 1
        if type(self).calls == type(self).last:
            raise KeyboardInterrupt
        return super().forward(images)


def test_an_evaluation_that_was_stopped_in_the_bare_suite_goes_on_exactly(tmp_path: Path) -> None:
    def run(out: Path, last: int = 0, bare: bool = True) -> Result:
        Fused.calls, Fused.last = 0, last
        defense = Defense(Fused(), Blur(0.5), rule="purified")
        return evaluate(
            defense, toy_data(8), THREAT, "paper", "quick", block_size=4, out=out, diagnostics=False, bare=bare
        )

    run(tmp_path / "first.json", bare=False)
    calls = Fused.calls
    whole = run(tmp_path / "whole.json")
    most = Fused.calls
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "parts.json", (calls + most) // 2 + 10)
    work = tmp_path / "parts.json.work"
    assert len(list(work.glob("block-*.json"))) == 2
    assert len(list((work / "bare").glob("block-*.json"))) == 2, "the second block was begun"
    again = run(tmp_path / "parts.json")
    assert Fused.calls < most - calls, "neither the defence nor the first block is attacked again"
    assert not work.exists()
    assert whole.bare is not None
    assert again.bare is not None
    for mine, theirs in ((whole, again), (whole.bare, again.bare)):
        assert mine.clean == theirs.clean
        assert [record.judged for record in mine.attacks] == [record.judged for record in theirs.attacks]
    assert Result.load(tmp_path / "parts.json") == again


class Endpoint:
    """Answers with plain numbers: no gradient, no module."""

    def __call__(self, images: Tensor) -> object:
        with torch.no_grad():
            return Toy()(images.detach()).numpy()


def test_a_classifier_without_gradients_meets_the_attacks_that_need_none() -> None:
    result = evaluate(
        Defense(Endpoint(), Blur(0.5), rule="purified"), toy_data(4), THREAT, budget="quick", diagnostics=False
    )
    assert result.bare is not None
    ran = [record.name for record in result.bare.attacks if not record.failed]
    assert ran == ["square"]
    assert "bare at most " in result.verdict.splitlines()[0]


def test_a_result_of_an_older_version_is_read(tmp_path: Path) -> None:
    from alu.evaluation.result import checksum
    from alu.storage import read_json, write_json

    results.result(20).save(tmp_path / "result.json")
    plain = read_json(tmp_path / "result.json")
    for name in ("checksum", "bare"):
        plain.pop(name)
    write_json(tmp_path / "old.json", {**plain, "checksum": checksum(plain)})
    old = Result.load(tmp_path / "old.json")
    assert old.bare is None
    assert str(old).startswith("Against an attacker who knows it, it is not known")
