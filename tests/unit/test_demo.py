"""The demo's rows are those of bundled defences: nothing is computed on a second path."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import alu
from alu import demo
from alu.attacks import PGD, fooled
from alu.attacks.adaptive import Confident, Direct
from alu.decision import Decision, Outcome
from alu.loading import load_bundled_defense
from alu.progress import silent

N = 6
IMAGES = alu.data.sample("test").draw(N, 0)


def ignored(done: int, total: int) -> None:
    """Nobody watches."""


@pytest.fixture(scope="module")
def defense() -> alu.Defense:
    return load_bundled_defense("demo-pca")


@pytest.fixture(scope="module")
def result(defense: alu.Defense) -> demo.DemoResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "DEFENSES", {demo.MAIN: "demo-pca"})
        patch.setattr(
            demo, "load_bundled_defense", lambda name, *_: defense if name == "demo-pca" else load_bundled_defense(name)
        )
        patch.setattr(demo, "SMOOTH", "cifar10-at")  # noise it was not trained on leaves it some answers
        return demo.run_demo(N)


@pytest.fixture(scope="module")
def check() -> alu.Defense:
    return load_bundled_defense("cifar10-at+check")


@pytest.fixture(scope="module")
def decisions(defense: alu.Defense) -> dict[str, Decision]:
    """What the same defence decides on the same images."""
    images = demo.attacked_images(defense, IMAGES.images, IMAGES.labels, 0, silent)
    return {column: defense.decide(some) for column, some in images.items()}


def bits(values: Tensor) -> list[int]:
    return values.int().tolist()


def test_each_row_is_what_a_defence_decides(
    result: demo.DemoResult, defense: alu.Defense, decisions: dict[str, Decision]
) -> None:
    labels = IMAGES.labels
    bare, purified, graded, defended = (row["columns"] for row in result.rows[:4])
    assert [*decisions, "everything"] == list(defended)
    no = {"flagged": None, "answered": None}
    grading = defense.with_rule("graded")
    given = demo.attacked_images(defense, IMAGES.images, labels, 0, silent)
    for column, decision in decisions.items():
        flagged = {"flagged": bits(decision.flagged), "answered": None}
        assert bare[column] == {"correct": bits(decision.pre_logits.argmax(1) == labels), **no}
        assert purified[column] == {"correct": bits(decision.post_logits.argmax(1) == labels), **no}
        assert defended[column] == {"correct": bits(decision.label == labels), **flagged}
        assert graded[column] == {"correct": bits(grading.decide(given[column]).label == labels), **flagged}
        torch.testing.assert_close(torch.tensor(result.scores[column]), decision.score.float(), rtol=0, atol=1e-3)
    assert result.setting["calibration images"] == len(alu.data.sample("calibration"))


def test_examples_show_the_attacked_image(result: demo.DemoResult, decisions: dict[str, Decision]) -> None:
    clean, attacked, decoy = result.examples[:3]
    assert [one["column"] for one in (clean, attacked, decoy)] == ["clean", "pgd", "decoy"]
    assert clean["adversarial"] == clean["clean"] == attacked["clean"]
    assert attacked["adversarial"] != attacked["clean"]
    assert attacked["answer"] == int(decisions["pgd"].label[0])


def test_the_robust_rows_are_attacked_on_their_own_classifier(result: demo.DemoResult, check: alu.Defense) -> None:
    alone, checked = (row["columns"] for row in result.rows[4:6])
    attacked = PGD(eps=8 / 255, steps=20)(check.classifier, IMAGES.images, IMAGES.labels)
    for column, images in {"clean": IMAGES.images, "pgd": attacked}.items():
        decision = check.decide(images)
        right = decision.label == IMAGES.labels
        assert alone[column] == {"correct": bits(right), "flagged": None, "answered": None}
        answered = {"flagged": None, "answered": bits(decision.accepted)}
        assert checked[column] == {"correct": bits(right & decision.accepted), **answered}
    assert list(alone) == list(checked) == ["clean", "pgd", "everything"]


def test_who_knows_everything_leaves_what_is_right_clean_and_never_answered_wrongly(result: demo.DemoResult) -> None:
    for row in result.rows[:5]:
        columns = [column["correct"] for name, column in row["columns"].items() if name != "everything"]
        never_wrong = [min(bits) for bits in zip(*columns, strict=True)]
        kept = row["columns"]["everything"]["correct"]
        assert all(one <= other for one, other in zip(kept, never_wrong, strict=True)), row["name"]


def test_an_attack_on_the_very_row_comes_on_top_of_the_columns(defense: alu.Defense) -> None:
    bare = alu.Defense(defense.classifier, rule="purified")
    clean = {"clean": bare.decide(IMAGES.images)}
    assert (clean["clean"].label == IMAGES.labels).sum() > 3
    assert not demo.kept_by(bare, clean, IMAGES.images, IMAGES.labels, 0, ignored).any()


def test_a_refused_picture_is_not_answered_wrongly_and_a_wrong_one_is_lost(check: alu.Defense) -> None:
    clean = check.decide(IMAGES.images)
    kept = kept_by_check(check, {"clean": clean})
    wrong = replace(clean, label=(IMAGES.labels + 1) % 10)
    refused = replace(wrong, accepted=torch.zeros(N, dtype=torch.bool))
    assert kept.any()
    assert bool((clean.outcome(IMAGES.labels) == Outcome.CORRECT)[kept].all())
    assert torch.equal(kept_by_check(check, {"clean": clean, "pgd": refused}), kept)
    assert not kept_by_check(check, {"clean": clean, "pgd": replace(wrong, accepted=~refused.accepted)}).any()


def kept_by_check(check: alu.Defense, decisions: dict[str, Decision]) -> Tensor:
    return demo.kept_by(check, decisions, IMAGES.images, IMAGES.labels, 0, ignored)


def test_a_defence_that_searches_is_attacked_with_confidence(defense: alu.Defense, check: alu.Defense) -> None:
    assert isinstance(demo.own_attack(check, 0), Confident)
    direct = demo.own_attack(defense, 0)
    assert isinstance(direct, Direct)
    assert direct.eps == 8 / 255
    assert fooled(defense, direct(defense, IMAGES.images, IMAGES.labels), IMAGES.labels).any()


def test_the_certificate_keeps_what_it_proves_about_clean_pictures(result: demo.DemoResult) -> None:
    row = result.rows[-1]
    smoothed = alu.models.Smoothed(alu.models.load("cifar10-at"), 0.25)
    proof = alu.detectors.Certificate(0.25, n=1_000, n0=20)
    decision = alu.Defense(smoothed, detector=proof, rule="abstain").decide(IMAGES.images)
    right = bits(decision.accepted & (decision.label == IMAGES.labels))
    assert 0 < sum(right) < N
    assert row == {
        "name": "certificate",
        "columns": {
            "clean": {"correct": right, "flagged": None, "answered": bits(decision.accepted)},
            "everything": {"correct": right, "flagged": None, "answered": None, "proven": 0.5},
        },
    }
    assert "1,000 samples" in result.setting["certificate"]


def test_without_its_classifier_there_is_no_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "SMOOTH", "not-published")
    groups = demo.refusing(IMAGES.images[:1], IMAGES.labels[:1], 0, "cpu", silent)
    assert [list(defenses) for defenses, _ in groups] == [["robust classifier alone", "robust classifier + check"]]
    monkeypatch.setattr(demo, "SMOOTH", "cifar10-at")
    groups = demo.refusing(IMAGES.images[:1], IMAGES.labels[:1], 0, "cpu", silent)
    assert list(groups[1][0]) == ["certificate"]
