"""The measured effect on a network that others trained: it must be there, and it must not be larger than it is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from alu import Defense, data
from alu.attacks import PGD
from alu.data.catalog import present
from alu.detectors import LogitShift
from alu.models import load_weights, resnet20
from alu.purifiers import PCA
from tests.conftest import use_all_cores


def check(model: nn.Module, pca: PCA, test: data.Dataset, calm: Tensor, slack: float = 0.0) -> None:
    """The effect is there, and an attacker who knows the rule removes it; `slack` is for fewer images."""
    defense = Defense(model, pca, LogitShift(), reference="input").calibrate(calm)
    clean = defense.decide(test.images)
    assert 0.74 - slack <= float((clean.label == test.labels).float().mean()) <= 0.83 + slack
    assert float(clean.flagged.float().mean()) <= 0.02 + slack
    attacked = defense.decide(PGD(eps=8 / 255, steps=20)(model, test.images, test.labels))
    assert float((attacked.label == test.labels).float().mean()) >= 0.88 - slack
    decoy = defense.decide(PGD(eps=8 / 255, steps=20)(model, test.images, (test.labels + 1) % 10))
    assert float((decoy.label == test.labels).float().mean()) <= 0.05 + slack, "an attacker who knows the rule wins"


def third_party(folder: Path) -> nn.Module:
    model = load_weights(resnet20(), folder / "resnet20-cifar10-akamaster.th")
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def test_pca_and_alu_on_the_third_party_resnet20(shared_data: Path) -> None:
    calm = data.sample("calibration").images
    check(third_party(shared_data), PCA.bundled("cifar10-pca"), data.sample("test").draw(100), calm, slack=0.04)


@pytest.mark.slow
def test_pca_and_alu_on_500_images(shared_data: Path) -> None:
    if not present("cifar10"):
        pytest.skip("needs all of CIFAR-10, which is neither cached nor could be fetched: run `alu data cifar10`")
    use_all_cores()
    pca = PCA(500).fit(data.cifar10("train", n=10_000).images)
    check(third_party(shared_data), pca, data.cifar10("test", n=500), data.cifar10("calibration").images)
