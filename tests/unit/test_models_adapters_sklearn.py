"""from_sklearn: the library's own log-probabilities, a score that ignores their constant, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import alu
from alu.check import AluWarning
from alu.detectors import Combined, Disagreement, LogitPeak, LogitShift
from alu.errors import AluError, InputError
from alu.fitting import Plan, fit_and_measure
from alu.models import from_sklearn, weight_hash
from alu.purifiers import Blur

pytest.importorskip("sklearn", reason="needs scikit-learn: pip install -e '.[sklearn]'")
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

VALUES, LABELS = load_digits(return_X_y=True)
IMAGES = torch.tensor(VALUES / 16, dtype=torch.float32).view(-1, 1, 8, 8)
FEW = 40


def fitted(seed: int = 0, scale: float = 1.0) -> Any:
    chosen = np.random.default_rng(seed).permutation(len(VALUES))[:600]
    made = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200, C=0.05))
    return made.fit(scale * VALUES[chosen] / 16, LABELS[chosen])


@pytest.fixture(scope="module")
def estimator() -> Any:
    return fitted()


@pytest.mark.parametrize("kind", ["pipeline", "forest"])
def test_logits_are_the_librarys_log_probabilities(kind: str, estimator: Any) -> None:
    own = estimator if kind == "pipeline" else RandomForestClassifier(20, random_state=0).fit(VALUES / 16, LABELS)
    adapter = from_sklearn(own)
    with np.errstate(divide="ignore"):
        expected = torch.from_numpy(own.predict_log_proba(VALUES[:FEW] / 16)).float()
    possible = expected.isfinite()  # a forest gives exact zeros, whose logarithm is no number
    found = adapter(IMAGES[:FEW])
    torch.testing.assert_close(found[possible], expected[possible], rtol=0, atol=1e-4)
    assert bool(found.isfinite().all())
    assert (adapter.size, adapter.channels, adapter.classes) == ((8, 8), 1, tuple("0123456789"))
    assert adapter.log_probabilities


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_colour_pictures_are_made_flat_as_the_estimator_knows_them(layout: Any) -> None:
    images = torch.rand((60, 3, 4, 6), generator=torch.Generator().manual_seed(0))
    ordered = images if layout == "NCHW" else images.permute(0, 2, 3, 1)
    names = np.array(["day", "night"])[(images[:, 2].mean((1, 2)) > 0.5).long()]
    own = LogisticRegression(C=1e-6).fit(255 * ordered.flatten(1).numpy(), names)
    adapter = from_sklearn(own, shape=(3, 4, 6), scale=255, layout=layout)
    expected = torch.from_numpy(own.predict_log_proba(255 * ordered.flatten(1).numpy())).float()
    torch.testing.assert_close(adapter(images), expected, rtol=0, atol=1e-3)
    assert adapter.classes == ("day", "night")


def test_the_wrong_range_is_noticed_on_a_handful() -> None:
    adapter = from_sklearn(fitted(scale=255))
    found = alu.models.check_normalisation(adapter, IMAGES[:FEW], torch.tensor(LABELS[:FEW]))
    assert found.better is not None
    assert str(found).endswith("Say what white is in the values it was fitted on: from_sklearn(estimator, scale=255).")
    right = from_sklearn(fitted(scale=255), scale=255)
    assert alu.models.check_normalisation(right, IMAGES[:FEW], torch.tensor(LABELS[:FEW])).better is None


def test_a_saved_defence_knows_the_estimator_by_its_answers(estimator: Any, tmp_path: Any) -> None:
    joblib = pytest.importorskip("joblib")
    forest = RandomForestClassifier(10, random_state=0).fit(VALUES / 16, LABELS)
    joblib.dump(forest, tmp_path / "forest.joblib")
    again = joblib.load(tmp_path / "forest.joblib")
    assert weight_hash(from_sklearn(again)) == weight_hash(from_sklearn(forest))
    assert weight_hash(from_sklearn(fitted(1))) != weight_hash(from_sklearn(estimator))
    defense = alu.Defense(from_sklearn(estimator), Blur(0.5), Disagreement(0.05)).calibrate(IMAGES[:60])
    defense.save(tmp_path / "saved")
    loaded = alu.Defense.load(tmp_path / "saved", from_sklearn(fitted()))
    assert torch.equal(loaded.decide(IMAGES[60:70]).score, defense.decide(IMAGES[60:70]).score)
    with pytest.raises(AluError, match="was saved around a classifier of your own"):
        alu.Defense.load(tmp_path / "saved")
    with pytest.raises(AluError, match="its weights differ"):
        alu.Defense.load(tmp_path / "saved", from_sklearn(fitted(1)))


def test_a_detector_that_counts_the_constant_is_warned_of(estimator: Any) -> None:
    adapter = from_sklearn(estimator)
    for detector in (
        LogitShift(0.05),
        LogitPeak(0.05),
        Combined(LogitPeak(0.05), Disagreement(0.05), false_alarm=0.05),
    ):
        with pytest.warns(AluWarning, match=r"counts that constant. Use alu.detectors.Disagreement"):
            alu.Defense(adapter, Blur(0.5), detector).calibrate(IMAGES[:60])
    alu.Defense(adapter, Blur(0.5), Disagreement(0.05)).calibrate(IMAGES[:60])  # without a warning


def test_which_detectors_count_the_constant(estimator: Any) -> None:
    """What the classes declare is what they do: other constants in each row, the same or another score."""
    defense = alu.Defense(from_sklearn(estimator), Blur(0.5), rule="purified")
    plain = defense.evidence(IMAGES[:FEW])
    shift = torch.linspace(-3, 3, FEW)[:, None]
    moved = alu.Evidence(plain.images, plain.purified, plain.pre_logits, plain.post_logits + shift)
    for detector in (LogitShift(), LogitPeak(), Disagreement(), alu.detectors.Confidence()):
        same = torch.allclose(detector.score(plain), detector.score(moved), atol=1e-5)
        assert same != detector.counts_constants, type(detector).__name__


def test_a_fit_takes_a_detector_that_ignores_the_constant(estimator: Any) -> None:
    plan = Plan(purifier="blur", false_alarm=0.05, rule="abstain")
    pictures = IMAGES[600:1000], torch.tensor(LABELS[600:1000])
    with pytest.warns(AluWarning, match=r'The detector "peak" would count that constant; "disagreement"'):
        made = fit_and_measure(from_sklearn(estimator), *pictures, plan)
    assert isinstance(made.defense.detector, Disagreement)
    assert made.defense.classes == tuple("0123456789")
    assert "it has no gradient" in made.not_attacked
    assert made.clean.bare.value > 0.8
    named = Plan(purifier="blur", false_alarm=0.05, rule="abstain", detector="disagreement")
    fit_and_measure(from_sklearn(estimator), *pictures, named)  # without a warning


@pytest.mark.parametrize(
    ("make", "settings", "sentence"),
    [
        (lambda: 7, {}, "int is no fitted estimator of scikit-learn"),
        (lambda: LinearSVC().fit(VALUES, LABELS), {}, "LinearSVC has no predict_proba, and a defence compares prob"),
        (LogisticRegression, {}, r"LogisticRegression is not fitted. Call its fit\(values, labels\) first"),
        (
            lambda: RandomForestClassifier(1).fit(VALUES[:, :60], LABELS),
            {},
            "60 values, and no square picture has as many",
        ),
        (fitted, {"shape": (3, 8, 8)}, r"was fitted on 64 values, and shape=\(3, 8, 8\) has 192. Give shape"),
        (fitted, {"classes": ["a", "b"]}, "knows 10 classes, but 2 are named: a, b. Name as many, in the order"),
        (fitted, {"scale": 0.0}, "needs a scale above 0, such as 255; it was given 0.0"),
        (fitted, {"layout": "HWC"}, "There is no layout 'HWC'"),
    ],
)
def test_what_is_no_classifier(make: Any, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(AluError, match=sentence):
        from_sklearn(make(), **settings)


def test_pictures_of_another_size_are_refused(estimator: Any) -> None:
    with pytest.raises(InputError, match=r"fitted on images of 1 x 8 x 8 .* these are 1 x 4 x 8. Scale them"):
        from_sklearn(estimator)(IMAGES[:2, :, :4])
