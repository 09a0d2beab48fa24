"""Residual: its statistics, its limits, and what it calls corrupted."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from alu import Defense
from alu.conformal import RATE
from alu.decision import Evidence
from alu.detectors import LogitShift
from alu.detectors.residual import Residual, diagonal
from alu.errors import UsageError
from alu.evaluation.harmless import gaussian_noise, salt_and_pepper
from alu.purifiers import PCA, Blur
from alu.rng import generator
from alu.state import State
from tests.contracts.parts import LinearClassifier, images_like
from tests.toys import Toy, toy_asymmetric, toy_defense, toy_images


def evidence_of(left: Tensor) -> Evidence:
    """Evidence whose residual is `left`."""
    logits = torch.zeros((len(left), 2))
    return Evidence(left, torch.zeros_like(left), logits, logits)


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (2, 27, 31)])
def test_the_first_statistic_is_the_deviation_of_noise_and_does_not_see_edges(shape: tuple[int, int, int]) -> None:
    noise = torch.randn((4, *shape), generator=generator(0, "noise"))
    sizes = torch.tensor([0.02, 0.05, 0.1, 0.2])
    left = sizes.view(4, 1, 1, 1) * noise
    found = Residual().statistics(evidence_of(left))
    torch.testing.assert_close(found[:, 0], sizes, rtol=0.15, atol=0)
    torch.testing.assert_close(found[:, 1], left.abs().flatten(1).amax(1))
    # Straight edges cancel, and a tenth of spoilt pixels do not move a median far.
    edge = torch.zeros((1, *shape))
    edge[..., shape[2] // 2 :] = 0.7
    assert float(Residual().statistics(evidence_of(edge))[0, 0]) == 0.0
    specks = torch.where(noise[:1] > 1.3, 1.0, 0.01 * noise[1:2])
    assert float(Residual().statistics(evidence_of(specks))[0, 0]) < 0.1


def test_the_band_is_orthonormal_and_cuts_an_odd_end() -> None:
    block = torch.tensor([[1.0, -1.0], [-1.0, 1.0]]).view(1, 1, 2, 2)
    assert diagonal(block).item() == 2.0
    assert diagonal(torch.zeros((1, 1, 5, 7))).shape == (1, 1, 2, 3)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 1, 4)])
def test_an_image_of_one_row_has_no_band(shape: tuple[int, int, int]) -> None:
    assert Residual().statistics(evidence_of(torch.full((2, *shape), 0.5))).tolist() == [[0.0, 0.5]] * 2


def test_limits_leave_room_for_an_attack_above_what_clean_images_have() -> None:
    # 200 images whose residual is one checkerboard, of heights 0.001 to 0.2.
    board = torch.tensor([[1.0, -1.0], [-1.0, 1.0]]).repeat(4, 4)
    heights = torch.arange(1, 201) / 1000
    test = Residual(eps=0.1)
    test.learn(test.statistics(evidence_of(heights.view(-1, 1, 1, 1) * board)))
    height = 0.2 * (1 - RATE)
    noise = 2 * height / 0.6745
    expected = torch.tensor([(noise**2 + 0.1**2) ** 0.5, height + 0.1])
    torch.testing.assert_close(test.limits_.float(), expected)
    above = evidence_of(torch.full((2, 1, 8, 8), float(expected[1])) + torch.tensor([-1e-4, 1e-4]).view(2, 1, 1, 1))
    noisy, specked = test.test(above)
    assert noisy.tolist() == [False, False]
    assert specked.tolist() == [False, True]


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28)])
def test_noise_and_specks_are_told_from_clean_images_and_from_small_changes(shape: tuple[int, int, int]) -> None:
    clean = images_like(120, shape, seed=1)
    purifier = PCA(30).fit(images_like(80, shape, seed=8))
    defense = Defense(LinearClassifier(shape, 5), purifier, LogitShift(0.05), "graded").calibrate(clean)
    images = images_like(40, shape, seed=2)
    small = (images + 8 / 255 * torch.randn(images.shape, generator=generator(0, "sign")).sign()).clamp(0, 1)
    shares = [
        float((defense.decide(some).state == State.CORRUPTED).float().mean())
        for some in (images, small, gaussian_noise(images, 0.1), salt_and_pepper(images, 0.02))
    ]
    assert shares[0] <= 0.05
    assert shares[1] <= 0.6, "random signs are the most noise that an attack of this size makes"
    assert shares[2] == 1.0
    assert shares[3] >= 0.9


def test_without_limits_nothing_is_corrupted_and_old_state_dicts_are_read() -> None:
    defense = toy_defense("alu")
    known = {name: value for name, value in defense.state_dict().items() if not name.startswith("residual.")}
    fresh = Defense(Toy(), Blur(0.5), LogitShift(0.05))
    fresh.load_state_dict(known)
    noisy = gaussian_noise(toy_images(6), 0.3)
    assert (defense.decide(noisy).state == State.CORRUPTED).all()
    assert not (fresh.decide(noisy).state == State.CORRUPTED).any()
    with pytest.raises(UsageError, match=r"Rule 'graded' needs limits .* Calibrate it again, or use rule='alu'"):
        fresh.with_rule("graded")


def test_limits_survive_saving_moving_and_a_state_dict(tmp_path: Path) -> None:
    defense = Defense(Toy(), Blur(0.5), LogitShift(0.05), "graded", eps=0.02).calibrate(toy_images(60, seed=9))
    defense.save(tmp_path / "saved")
    again = Defense.load(tmp_path / "saved", classifier=defense.classifier)
    assert again.residual.eps == 0.02
    assert torch.equal(again.residual.limits_, defense.residual.limits_)
    fresh = Defense(Toy(), Blur(0.5), LogitShift(0.05), "graded", eps=0.02)
    fresh.load_state_dict(defense.state_dict())
    assert torch.equal(fresh.residual.limits_, defense.residual.limits_)
    assert fresh.to(torch.float16).residual.limits_.dtype == torch.float64


def test_what_graded_cannot_work_with_is_refused_in_a_sentence() -> None:
    with pytest.raises(UsageError, match=r"Rule 'graded' answers from the picture itself .* Use reference='input'"):
        toy_defense("graded", "reconstruction")
    with pytest.raises(UsageError, match=r"InnerVAE makes features, not images"):
        toy_asymmetric().with_rule("graded")
    with pytest.raises(UsageError, match=r"eps is the largest change of a pixel .* it is 8"):
        Defense(Toy(), Blur(0.5), LogitShift(), eps=8)


def test_another_rule_shares_parts_and_calibration() -> None:
    defense = toy_defense("alu")
    defense.classes = tuple("abcde")
    graded = defense.with_rule("graded")
    assert (graded.rule, graded.classes, graded.shape) == ("graded", defense.classes, defense.shape)
    assert graded.detector is defense.detector
    images = toy_images(12)
    assert torch.equal(graded.decide(images).label, toy_defense("graded").decide(images).label)
    assert not torch.equal(graded.decide(images).label, defense.decide(images).label)
