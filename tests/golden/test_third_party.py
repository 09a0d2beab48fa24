"""The measured effect on a network that others trained: it must be there, and it must not be larger than it is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from alu import Defense, data
from alu.attacks import PGD
from alu.data.catalog import present
from alu.detectors import LogitShift
from alu.models import load_weights, resnet20
from alu.purifiers import PCA
from tests.conftest import use_all_cores


def test_pca_and_alu_on_the_third_party_resnet20(shared_data: Path) -> None:
    if not present("cifar10"):
        pytest.skip("needs all of CIFAR-10, which is neither cached nor could be fetched: run `alu data cifar10`")
    use_all_cores()
    model = load_weights(resnet20(), shared_data / "resnet20-cifar10-akamaster.th")
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    test = data.cifar10("test", n=500)
    pca = PCA(500).fit(data.cifar10("train", n=10_000).images)
    defense = Defense(model, pca, LogitShift(), reference="input").calibrate(data.cifar10("calibration").images)
    clean = defense.decide(test.images)
    assert 0.74 <= float((clean.label == test.labels).float().mean()) <= 0.83
    assert float(clean.flagged.float().mean()) <= 0.02
    attacked = defense.decide(PGD(eps=8 / 255, steps=20)(model, test.images, test.labels))
    assert float((attacked.label == test.labels).float().mean()) >= 0.88
    decoy = defense.decide(PGD(eps=8 / 255, steps=20)(model, test.images, (test.labels + 1) % 10))
    assert float((decoy.label == test.labels).float().mean()) <= 0.05, "an attacker who knows the rule wins"
