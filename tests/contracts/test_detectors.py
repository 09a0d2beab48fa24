"""What every detector promises."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from alu.decision import Evidence
from alu.detectors import Detector, LogitPeak, LogitShift, ReconstructionError
from alu.errors import InputError, NotFittedError
from alu.rng import generator
from tests.contracts.parts import DETECTORS, images_like

SHAPE = (3, 16, 16)
every = pytest.mark.parametrize("name", list(DETECTORS))


def evidence(count: int, seed: int = 0, shift: float = 1.0) -> Evidence:
    stream = generator(seed, "evidence")
    images = images_like(count, SHAPE, seed)
    purified = (images + 0.05 * torch.rand(images.shape, generator=stream)).clamp(0, 1)
    before = 3 * torch.randn((count, 4), generator=stream)
    after = before + shift * torch.randn((count, 4), generator=stream)
    return Evidence(images, purified, before, after)


@every
def test_one_score_per_image_that_depends_on_that_image_alone(name: str) -> None:
    detector = DETECTORS[name]()
    detector.calibrate(evidence(400))
    found = evidence(20, seed=1)
    scores = detector.score(found)
    assert scores.shape == (20,)
    part = Evidence(found.images[5:9], found.purified[5:9], found.pre_logits[5:9], found.post_logits[5:9])
    torch.testing.assert_close(detector.score(part), scores[5:9])
    torch.testing.assert_close(detector.p_values(part, scores[5:9]), detector.p_values(found, scores)[5:9])


@every
def test_p_values_fall_with_the_score_and_meet_the_threshold(name: str) -> None:
    detector = DETECTORS[name]()
    detector.calibrate(evidence(600))
    found = evidence(300, seed=2, shift=2.0)
    scores = detector.score(found)
    values = detector.p_values(found, scores)
    assert ((values > 0) & (values <= 1)).all()
    flagged = detector.test(found).flagged
    assert torch.equal(flagged, values <= detector.false_alarm + 1e-9)
    assert torch.equal(flagged, scores.double() > detector.thresholds(found).double())
    assert flagged.any()
    assert not flagged.all()


@every
def test_before_calibration_it_says_what_to_do(name: str) -> None:
    detector = DETECTORS[name]()
    found = evidence(3)
    with pytest.raises(NotFittedError, match=r"no threshold yet. Call defense.calibrate\(images\)"):
        detector.test(found)
    with pytest.raises(NotFittedError, match="calibrate"):
        _ = detector.threshold_


@every
def test_too_few_clean_images_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"needs at least \d+ clean images.*Give more images"):
        DETECTORS[name]().calibrate(evidence(4))


@every
def test_rebuilt_and_restored(name: str) -> None:
    detector = DETECTORS[name]()
    detector.calibrate(evidence(400))
    again = Detector.rebuild(detector.description())
    again.load_state_dict({key: tensor.clone() for key, tensor in detector.state_dict().items()})
    found = evidence(50, seed=3, shift=2.0)
    for field in ("score", "p_value", "flagged"):
        assert torch.equal(getattr(again.test(found), field), getattr(detector.test(found), field)), field


@every
def test_what_is_calibrated_keeps_every_bit_in_another_precision(name: str) -> None:
    detector = DETECTORS[name]()
    detector.calibrate(evidence(400))
    before = {key: tensor.clone() for key, tensor in detector.state_dict().items()}
    detector.half()
    assert all(torch.equal(tensor, before[key]) for key, tensor in detector.state_dict().items())


@every
def test_the_global_random_state_is_untouched(name: str) -> None:
    state = torch.get_rng_state()
    detector = DETECTORS[name]()
    detector.calibrate(evidence(400))
    detector.score(evidence(5))
    assert torch.equal(torch.get_rng_state(), state)


@every
def test_scores_have_a_gradient(name: str) -> None:
    detector = DETECTORS[name]()
    detector.calibrate(evidence(400))
    found = evidence(8, seed=4)
    purified, after = found.purified.requires_grad_(True), found.post_logits.requires_grad_(True)
    scores = detector.score(Evidence(found.images, purified, found.pre_logits, after)).sum()
    gradients = torch.autograd.grad(scores, (purified, after), allow_unused=True)
    assert any(g is not None and float(g.abs().max()) > 0 for g in gradients)


def test_scores_by_hand() -> None:
    images = torch.zeros(1, 3, 4, 4)
    found = Evidence(images, images + 0.5, torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[2.0, -2.0, 3.5]]))
    assert LogitShift().score(found).tolist() == [5.5]
    assert LogitPeak().score(found).tolist() == [4.0]
    assert ReconstructionError().score(found).tolist() == [0.5]


@every
def test_flags_follow_the_one_threshold_rule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    detector, clean = DETECTORS[name](), evidence(400)
    detector.calibrate(clean)
    before = int(detector.test(clean).flagged.sum())
    monkeypatch.setattr("alu.conformal.conformal_rank", lambda n, false_alarm: n // 2)
    after = detector.test(clean)
    assert int(after.flagged.sum()) > before + 50, "whoever changes the rule changes the flags"
    above = after.score.to(torch.float64) > detector.thresholds(clean)
    assert torch.equal(after.flagged, above), "attackers aim at the threshold that flags"


def test_a_score_that_is_no_number_is_flagged() -> None:
    clean = evidence(400)
    detector = DETECTORS["logit shift"]()
    detector.calibrate(clean)
    broken = replace(clean, post_logits=torch.full_like(clean.post_logits, float("nan")))
    assert bool(detector.test(broken).flagged.all())
