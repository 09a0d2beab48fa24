"""Metrics against values worked out by hand."""

from __future__ import annotations

import pytest

from alu.errors import UsageError
from alu.evaluation import metrics
from alu.evaluation.metrics import CORRECT, REJECTED, WRONG
from alu.evaluation.result import Answers, AttackRecord, Result
from alu.stats import Share, roc, sign_test
from tests.unit import results

CLEAN = [CORRECT, CORRECT, CORRECT, WRONG, CORRECT, REJECTED]


FIRST = [CORRECT, WRONG, CORRECT, CORRECT, CORRECT, REJECTED]


SECOND = [CORRECT, CORRECT, REJECTED, CORRECT, WRONG, CORRECT]


def answers(outcomes: list[int], images: list[int] | None = None) -> Answers:
    """Answers that have these outcomes where every label is 1; an image that is rejected would be answered rightly."""
    return Answers(
        images=list(range(len(outcomes))) if images is None else images,
        answer=[0 if outcome == WRONG else 1 for outcome in outcomes],
        accepted=[outcome != REJECTED for outcome in outcomes],
        flagged=[outcome == REJECTED for outcome in outcomes],
    )


def attack(name: str, knowledge: str, outcomes: list[int], images: list[int] | None = None) -> AttackRecord:
    return AttackRecord(name, knowledge, name, {}, images is None, answers(outcomes, images))


def six(*attacks: AttackRecord, clean: list[int] = CLEAN) -> Result:
    return Result(
        subject={"name": "six"}, dataset={"name": "d", "split": "test"}, threat={"norm": "Linf", "eps": 8 / 255},
        suite="adaptive", budget="quick", labels=[1] * len(clean), numbers=list(range(len(clean))), classes=["a", "b"],
        clean=answers(clean), attacks=list(attacks), provenance={},
    )  # fmt: skip


@pytest.fixture
def both() -> Result:
    return six(attack("first", "oblivious", FIRST), attack("second", "adaptive", SECOND))


def test_both_protocols(both: Result) -> None:
    assert metrics.clean(both) == Share(4, 6)
    assert metrics.rejected_clean(both) == Share(1, 6)
    assert metrics.worst(both) == dict(enumerate([CORRECT, WRONG, REJECTED, WRONG, WRONG, REJECTED]))
    assert metrics.robust(both) == Share(1, 6)
    assert metrics.resisted(both) == Share(3, 6)
    assert [metrics.paper(both, record) for record in both.attacks] == [Share(4, 6), Share(4, 6)]
    assert [metrics.robust_under(both, record) for record in both.attacks] == [Share(3, 6), Share(2, 6)]
    assert [metrics.broken(both, record) for record in both.attacks] == [1, 1]
    assert (both.clean_accuracy, both.robust_accuracy, both.resisted) == (4 / 6, 1 / 6, 3 / 6)


def test_wrong_is_worse_than_rejected_and_stays_so() -> None:
    result = six(
        attack("first", "oblivious", [REJECTED, WRONG]),
        attack("second", "oblivious", [WRONG, REJECTED]),
        clean=[CORRECT, CORRECT],
    )
    assert metrics.worst(result) == {0: WRONG, 1: WRONG}


def test_levels_hold_what_those_who_know_less_can_do(both: Result) -> None:
    assert metrics.robust(both, metrics.LEVELS["oblivious"]) == Share(3, 6)
    assert metrics.robust(both, metrics.LEVELS["surrogate"]) == Share(3, 6)
    assert metrics.robust(both, metrics.LEVELS["adaptive"]) == Share(1, 6)
    assert metrics.robust(both, []) == metrics.clean(both)


def test_a_figure_is_only_a_bound_where_an_image_that_stands_was_kept_from_an_attack() -> None:
    # The first attack breaks image 1; the second is given images 0 and 2, or all but one that stands.
    seen = six(attack("first", "oblivious", FIRST), attack("second", "adaptive", [CORRECT] * 3, [0, 2, 4]))
    assert not metrics.bound_only(seen, metrics.LEVELS["adaptive"])
    assert metrics.bound_only(seen, metrics.LEVELS["adaptive"], (CORRECT, REJECTED))
    kept = six(attack("first", "oblivious", FIRST), attack("second", "adaptive", [CORRECT] * 2, [0, 2]))
    assert metrics.bound_only(kept, metrics.LEVELS["adaptive"])
    assert not metrics.bound_only(kept, metrics.LEVELS["oblivious"])
    kept.attacks[1].answers, kept.attacks[1].failed = Answers(), "no gradient"
    assert not metrics.bound_only(kept, metrics.LEVELS["adaptive"])


def test_paper_protocol_needs_every_image() -> None:
    result = six(attack("late", "adaptive", [CORRECT, WRONG], [0, 1]))
    assert metrics.paper(result, result.attacks[0]) is None
    assert metrics.paper(result, AttackRecord("empty", "adaptive", "", {}, True)) is None


def test_the_paper_protocol_counts_a_rejected_image_as_not_answered(both: Result) -> None:
    both.attacks[0].answers.bare = [1, 1, 0, 0, 0, 1]
    # The last image is rejected: the bare classifier has answered it all the same.
    assert metrics.beside(both, both.attacks[0].answers, "bare") == Share(3, 6)
    assert metrics.beside(both, both.attacks[0].answers, "purified") is None


def test_wilson_by_hand() -> None:
    # p = 0.8, n = 10, z = 1.96: (0.8 + 0.19208 ± 1.96 * sqrt(0.016 + 0.009604)) / 1.38416
    assert Share(8, 10).interval == pytest.approx((0.4902, 0.9433), abs=1e-4)


def test_flags() -> None:
    assert metrics.flagged(answers(CLEAN)) == Share(1, 6)
    assert metrics.flagged(Answers()) is None
    result = six()
    result.labels = [0, 0, 0, 1, 1, 1]
    result.classes = ["a", "b", "c"]
    assert metrics.per_class(result) == [Share(0, 3), Share(1, 3), None]


def test_roc() -> None:
    assert roc([1.0, 2.0], [2.0, 3.0]) == [(0.0, 0.0), (0.0, 0.5), (0.5, 1.0), (1.0, 1.0)]
    assert roc([1.0], [1.0, 2.0, 2.0, 0.0])[1:] == [(0.0, 0.5), (1.0, 0.75), (1.0, 1.0)]
    # Equal scores cannot be told apart: one step along the diagonal.
    assert roc([1.0, 1.0], [1.0]) == [(0.0, 0.0), (1.0, 1.0)]


def test_detected_at() -> None:
    negative = [float(value) for value in range(1, 10)]
    positive = [8.5, 9.0, 9.5, 20.0]
    # Nine clean images: 10 % allows one rank, the threshold is the largest score; 20 % the second largest.
    assert metrics.detected_at(negative, positive, 0.1) == Share(2, 4)
    assert metrics.detected_at(negative, positive, 0.2) == Share(4, 4)
    assert metrics.detected_at(negative, positive, 0.09) is None


def test_precision() -> None:
    # 0.9e-4 true alarms for 0.005 * 0.9999 false ones.
    assert metrics.precision(0.9, 0.005) == pytest.approx(0.9e-4 / (0.9e-4 + 0.0049995))
    assert metrics.precision(1.0, 0.5, prevalence=0.5) == pytest.approx(2 / 3)
    assert metrics.precision(0.0, 0.0) == 0.0


def test_kept_and_wrong() -> None:
    some = Answers(images=[2, 0, 1], score=[3.0, 1.0, 2.0], purified=[1, 1, 0])
    found = metrics.kept_and_wrong([1, 1, 0], some, [0.5, 1.0, 2.5, 3.0])
    assert found == [
        (Share(0, 3), None),
        (Share(1, 3), Share(0, 1)),
        (Share(2, 3), Share(1, 2)),
        (Share(3, 3), Share(2, 3)),
    ]


def test_mcnemar() -> None:
    good, bad = [CORRECT] * 9, [CORRECT, CORRECT, *[WRONG] * 6, CORRECT]
    first, second = six(clean=good), six(clean=bad)
    second.clean.answer[8] = first.clean.answer[8] = 1
    first.clean.answer[0] = 0
    # Only the first keeps images 2 to 7, only the second image 0: 2 * (C(7,0) + C(7,1)) / 2^7.
    assert metrics.mcnemar(first, second) == (6, 1, pytest.approx(0.125))
    assert sign_test(0, 5) == pytest.approx(2 / 32)
    assert sign_test(3, 3) == 1.0
    assert sign_test(0, 0) == 1.0
    # 2,000 images are more than a float's power of two holds.
    assert 0 < sign_test(900, 1100) < 1e-5


@pytest.mark.parametrize("field", ["labels", "numbers", "name", "sha256"])
def test_mcnemar_wants_the_same_images(field: str) -> None:
    first, second = results.result(20), results.result(20)
    if field in ("labels", "numbers"):
        setattr(second, field, [value + 1 for value in getattr(second, field)])
    else:
        second.dataset = {**second.dataset, field: "another"}
    with pytest.raises(UsageError, match="on the same images"):
        metrics.mcnemar(first, second)


def test_robust_is_never_above_clean() -> None:
    for seed in range(5):
        result = results.result(40, seed)
        found = [metrics.robust(result, names).count for names in ([], *metrics.LEVELS.values())]
        assert found == sorted(found, reverse=True)
        assert found[0] == metrics.clean(result).count
        assert metrics.resisted(result).count >= found[-1]
