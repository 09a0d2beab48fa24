"""The 8-bit lattice: adversarial images that can be saved as pictures and are still allowed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from alu.attacks import PGD
from alu.attacks.lattice import on_lattice, to_lattice
from alu.errors import InputError
from alu.rng import generator
from alu.threat import ThreatModel
from tests.contracts.parts import LinearClassifier, images_like

SHAPE = (3, 8, 8)


def pictures(count: int, seed: int) -> Tensor:
    levels = torch.randint(0, 256, (count, *SHAPE), generator=generator(seed, "pictures"))
    return levels.float() / 255


def nearby(origin: Tensor, threat: ThreatModel, seed: int) -> Tensor:
    """Images on the edge of the ball, where rounding is most likely to leave it."""
    noise = 2 * torch.rand(origin.shape, generator=generator(seed, "nearby")) - 1
    return threat.project(origin + 100 * threat.eps * noise, origin)


THREATS = [
    *[ThreatModel("Linf", eps / 255) for eps in (0.4, 0.5, 1, 1.5, 2.9, 8, 64)],
    *[ThreatModel("L2", eps) for eps in (0.003, 0.05, 0.5, 2.0, 20.0)],
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("threat", THREATS, ids=str)
def test_whole_levels_inside_ball_and_box(threat: ThreatModel, dtype: torch.dtype) -> None:
    for seed in range(5):
        origin = pictures(6, seed).to(dtype)
        moved = nearby(origin, threat, seed)
        rounded = to_lattice(moved, origin, threat)
        levels = rounded.double() * 255
        assert (levels - levels.round()).abs().max() < 1e-4
        assert on_lattice(rounded).all()
        assert threat.contains(rounded, origin, 1e-7).all()
        assert ((rounded - moved).abs() <= 1 / 255 + 1e-6).all(), "never more than one level away"


@pytest.mark.parametrize("eps", [8 / 255, 3 / 255])
def test_a_whole_number_of_levels_loses_nothing(eps: float) -> None:
    origin = 0.25 + pictures(4, 9) / 2
    origin = (origin * 255).round() / 255
    threat = ThreatModel("Linf", eps)
    moved = threat.project(origin + nearby(origin, threat, 1).sub(origin).sign(), origin)
    torch.testing.assert_close(to_lattice(moved, origin, threat), moved, rtol=0, atol=1e-6)


def test_little_of_the_length_is_lost_in_l2() -> None:
    """Rounding every pixel towards the original would lose a fifth here."""
    threat = ThreatModel("L2", 0.5)
    origin = (0.25 + images_like(4, (3, 32, 32)) / 2).mul(255).round() / 255
    rounded = to_lattice(nearby(origin, threat, 2), origin, threat)
    assert (threat.distance(rounded, origin) >= 0.98 * threat.eps).all()


def test_the_original_keeps_its_bits() -> None:
    origin = pictures(3, 4)
    assert torch.equal(to_lattice(origin.clone(), origin, ThreatModel("L2", 0.1)), origin)


def test_originals_off_the_lattice_are_refused() -> None:
    images = images_like(2, SHAPE)
    with pytest.raises(InputError, match="not 8-bit pictures themselves"):
        PGD(lattice=True, steps=1)(LinearClassifier(SHAPE, 3), images, torch.tensor([0, 1]))
