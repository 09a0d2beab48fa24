"""A defence as an engine: the same decisions, hashes that follow what they name, and what cannot be served."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import alu
from alu.data import Dataset
from alu.errors import UsageError
from alu.serve.defended import DefendedEngine, load_engine
from alu.state import State


@pytest.fixture(scope="module")
def engine(saved_pca: Path) -> DefendedEngine:
    return load_engine(str(saved_pca))


def test_it_decides_as_the_defence_does(engine: DefendedEngine, sample: Dataset) -> None:
    some = sample.draw(20)
    answers = engine.decide(some.pixels.numpy(), purified=True)
    decision = engine.defense.decide(some.images)
    assert answers.label.tolist() == decision.label.tolist()
    assert answers.flagged.tolist() == decision.flagged.tolist()
    assert answers.accepted.tolist() == decision.accepted.tolist()
    assert list(answers.state) == [State(one).word for one in decision.state.tolist()]
    assert np.array_equal(answers.score, decision.score.double().numpy())
    assert np.array_equal(answers.p_value, decision.p_value.numpy())
    assert np.array_equal(answers.pre_logits, decision.pre_logits.numpy())
    assert np.array_equal(answers.post_logits, decision.post_logits.numpy())
    assert answers.purified is not None
    assert np.array_equal(answers.purified, decision.purified.numpy())
    assert engine.decide(some.pixels.numpy()).purified is None


def test_it_says_what_it_is(engine: DefendedEngine, saved_pca: Path) -> None:
    assert (engine.name, engine.shape, len(engine.classes)) == (str(saved_pca), (3, 32, 32), 10)
    assert (engine.facts["rule"], engine.facts["false_alarm"]) == ("alu", 0.005)
    assert engine.facts["threshold"] == pytest.approx(float(engine.defense.detector.threshold_))  # type: ignore[union-attr]
    assert engine.clean_scores is not None
    assert len(engine.clean_scores) == 1500


def test_hashes_follow_weights_settings_and_calibration(
    engine: DefendedEngine, saved_pca: Path, clean: torch.Tensor
) -> None:
    same = load_engine(str(saved_pca))
    assert (same.model, same.calibration) == (engine.model, engine.calibration)
    assert len(engine.model) == len(engine.calibration) == 64
    other_rule = DefendedEngine(alu.Defense.load(saved_pca).with_rule("abstain"), "x")
    assert other_rule.model != engine.model
    assert other_rule.calibration == engine.calibration
    calibrated = DefendedEngine(alu.Defense.load(saved_pca).calibrate(clean), "x")
    assert calibrated.model == engine.model
    assert calibrated.calibration != engine.calibration
    changed = alu.Defense.load(saved_pca)
    with torch.no_grad():
        next(changed.classifier.parameters()).add_(1e-3)  # type: ignore[attr-defined]
    assert DefendedEngine(changed, "x").model != engine.model


def test_without_a_detector_there_is_no_score_to_monitor(clean: torch.Tensor) -> None:
    defense = alu.Defense(alu.models.load("cifar10-standard"), alu.purifiers.Blur(0.5), rule="purified")
    defense.shape_ = torch.tensor([3, 32, 32])
    engine = DefendedEngine(defense, "purified")
    assert engine.clean_scores is None
    assert "without a detector has no score" in engine.without_scores
    assert np.isnan(engine.decide(np.zeros((2, 3, 32, 32), np.uint8)).p_value).all()


def test_a_check_is_served_and_says_why_it_is_not_monitored() -> None:
    engine = load_engine("cifar10-at+check")
    assert engine.clean_scores is None
    assert "has no scores of clean pictures" in engine.without_scores
    assert engine.decide(np.zeros((1, 3, 32, 32), np.uint8)).label.shape == (1,)


def test_features_are_no_pictures() -> None:
    classifier = alu.models.load("cifar10-asymmetric")
    purifier = alu.purifiers.InnerVAE("cifar10-asymmetric", steps=0)
    defense = alu.Defense(classifier, purifier, alu.detectors.LogitShift(0.05))
    engine = DefendedEngine(defense.calibrate(alu.data.sample("calibration").images[:40]), "asymmetric")
    assert not engine.can_purify


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("cifar10-standard", "a classifier without a defence"),
        ("nonsense", "Unknown model or defence"),
        ("demo@x", "after @ stands a whole number"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(name: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        load_engine(name)


def test_a_defence_that_was_not_calibrated_is_refused() -> None:
    defense = alu.Defense(alu.models.load("cifar10-standard"), alu.purifiers.Blur(0.5), alu.detectors.LogitShift())
    with pytest.raises(UsageError, match="has not been calibrated"):
        DefendedEngine(defense, "mine")


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="no device 'cuba'"):
        load_engine("demo-pca", device="cuba")
