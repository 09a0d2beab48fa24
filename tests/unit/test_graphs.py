"""The graphs of every kind of part answer as torch does: purifiers, detectors, rules, readings, the search."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import alu
from alu import Decision, Defense, exported
from alu.detectors import (
    Combined,
    Confidence,
    Disagreement,
    LogitPeak,
    LogitShift,
    Neighbourhood,
    ReconstructionError,
)
from alu.exported import Exported
from alu.purifiers import JPEG, PCA, AntiAdversary, BitDepth, Blur, Chain, InnerVAE, LatentVAE, Median, UNet
from alu.training.recipes import seeded
from tests.contracts.parts import LinearClassifier, images_like, small_amortised, small_unet, small_vae

SHAPE = (3, 16, 16)
ODD = (3, 15, 13)
CLEAN = 120


def small_cnn() -> nn.Module:
    """Convolutions with a stride and with groups, both normalisations, both pools."""
    layers = (
        nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.GroupNorm(2, 8), nn.GELU(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Dropout(), nn.Linear(32, 5),
    )  # fmt: skip
    return nn.Sequential(*layers).eval()


def filters() -> Defense:
    purifier = Chain(BitDepth(5), Median(3), JPEG(90), Blur(0.6), UNet(small_unet(ODD)))
    detector = Combined(LogitShift(0.1), Disagreement(0.1), ReconstructionError(0.1), false_alarm=0.1)
    return Defense(LinearClassifier(ODD, 4), purifier, detector, "abstain")


def projection() -> Defense:
    purifier = PCA(12).fit(images_like(40, SHAPE, seed=8))
    return Defense(LinearClassifier(SHAPE, 2), purifier, LogitShift(0.1, per_class=True), "graded", suspicious=0.4)


def descent() -> Defense:
    latent = LatentVAE(
        small_vae(ODD), steps=4, lr=0.05, solver="gd", objective="norm", prior=0.01, start="random", seed=3
    )
    return Defense(LinearClassifier(ODD, 4), Chain(Blur(0.5), latent), LogitPeak(0.1), "alu", "reconstruction")


def adam() -> Defense:
    purifier = LatentVAE(small_vae(ODD), steps=3, objective="mse")
    return Defense(LinearClassifier(ODD, 4), purifier, Confidence(0.1), "purified")


def learned() -> Defense:
    purifier = LatentVAE(small_amortised(ODD), solver="learned")
    return Defense(LinearClassifier(ODD, 4), purifier, LogitPeak(0.1), "alu", "reconstruction")


def inner() -> Defense:
    network = seeded(lambda: alu.models.asymmetric(4, 3, latent=4, vae_width=16, width=8), 1).eval()
    return Defense(network, InnerVAE(network, steps=2), LogitShift(0.1), "alu")


def guided() -> Defense:
    classifier = LinearClassifier(SHAPE, 4)
    return Defense(classifier, AntiAdversary(classifier, steps=2, step_size=0.02), LogitShift(0.1), "alu")


def search() -> Defense:
    return Defense(seeded(small_cnn, 2), detector=Neighbourhood(4 / 255, steps=3), rule="abstain")


def search_by_target() -> Defense:
    return Defense(seeded(small_cnn, 2), detector=Neighbourhood(4 / 255, steps=2, targets=2), rule="abstain")


def bare() -> Defense:
    return Defense(LinearClassifier(SHAPE, 4), rule="purified")


MAKERS: dict[str, tuple[Callable[[], Defense], tuple[int, int, int], list[str]]] = {
    "filters": (filters, ODD, ["classify", "rule"]),
    "projection": (projection, SHAPE, ["classify", "rule"]),
    "descent": (descent, ODD, ["classify", "encode", "rule", "step"]),
    "adam": (adam, ODD, ["classify", "encode", "rule", "step"]),
    "learned": (learned, ODD, ["classify", "rule"]),
    "inner": (inner, SHAPE, ["classify", "encode", "rule", "step"]),
    "guided": (guided, SHAPE, ["classify", "rule"]),
    "search": (search, SHAPE, ["classify", "rule", "score", "search"]),
    "search by target": (search_by_target, SHAPE, ["classify", "rule", "score", "search"]),
    "bare": (bare, SHAPE, ["classify", "rule"]),
}


def varied(shape: tuple[int, int, int]) -> Tensor:
    """Pictures, some of them noisy and some with spoilt pixels."""
    images = images_like(40, shape, seed=2)
    noise = torch.randn(images[:10].shape, generator=torch.Generator().manual_seed(0))
    images[:10] = (images[:10] + 0.3 * noise).clamp(0, 1)
    images[10:14, :, 3:5, 3:5] = 1.0
    return images


def assert_same(found: exported.Decision, truth: Decision, one_rank: float) -> None:
    """Equal answers, close numbers; a p-value may be one rank off."""
    for name in ("label", "accepted", "flagged", "state"):
        assert getattr(found, name).tolist() == getattr(truth, name).tolist(), name
    for name in ("pre_logits", "post_logits", "score", "purified"):
        np.testing.assert_allclose(getattr(found, name), getattr(truth, name).numpy(), atol=1e-3, err_msg=name)
        assert getattr(found, name).dtype == getattr(truth, name).numpy().dtype, name
    np.testing.assert_allclose(found.p_value, truth.p_value.numpy(), rtol=0, atol=one_rank * (1 + 1e-9))


SLOW = ("inner", "search by target")
"""What differs little from another one; tracing takes seconds."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in MAKERS]
)
def test_graphs_answer_as_torch_does(name: str, tmp_path: Path) -> None:
    maker, shape, graphs = MAKERS[name]
    defense, clean, images = maker(), images_like(CLEAN, shape, seed=1), varied(shape)
    if defense.detector is not None:
        defense.calibrate(clean)
    made = alu.export(defense, tmp_path / "export", None if defense.shape else clean)
    assert sorted(path.stem for path in (tmp_path / "export").glob("*.onnx")) == graphs
    assert (made.shape, made.rule) == (shape, defense.rule)
    truth, found = defense.decide(images), made.decide(images.numpy(), batch_size=9)
    n = CLEAN // 2 if name == "filters" else CLEAN  # Combined calibrates on one half
    assert_same(found, truth, 1 / (n + 1))
    alone = np.concatenate([made.decide(images[place : place + 1].numpy()).post_logits for place in range(9)])
    np.testing.assert_allclose(alone, found.post_logits[:9], atol=1e-5)
    if defense.detector is not None:
        assert 0 < found.flagged.sum() < len(images), "nothing was tested"
    if defense.rule == "graded":
        assert set(found.state.tolist()) == {0, 1, 2, 3}
    if name == "search":
        assert_ends_early(made, images[found.flagged].numpy())
    if defense.detector is not None and name != "filters":
        assert_same(made.calibrate(clean.numpy()).decide(images.numpy()), truth, 1 / (n + 1))


def assert_ends_early(made: Exported, images: np.ndarray) -> None:
    """Where every answer has changed, there is nothing left to search."""
    graph, ran = made._graphs["search"], []
    run = graph.run
    graph.run = lambda values: ran.append(1) or run(values)  # type: ignore[method-assign, func-returns-value]
    assert made.decide(images).flagged.all()
    assert 0 < len(ran) < len(made.facts["program"][1]["factors"])
    graph.run = run  # type: ignore[method-assign]
