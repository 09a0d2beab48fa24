"""Bundled defences by name: what each name means, and which names mean nothing."""

from __future__ import annotations

import pytest

from alu import models
from alu.experiments.defenses import READINGS, all_names, by_name


def test_every_offered_name_means_something_and_is_offered_once() -> None:
    names = all_names()
    assert len(names) == len(set(names))
    assert {"demo", "demo-pca-abstain", "cifar10-unified+vae", "cifar10-unified+vae-reconstruction"} <= set(names)


@pytest.mark.parametrize(
    ("name", "reading", "purifier"),
    [("cifar10-unified+pca-purified", "purified", "PCA"), ("cifar10-unified+pca", "input", "PCA")],
)
def test_a_classifier_behind_a_purifier(name: str, reading: str, purifier: str) -> None:
    made = by_name(name)
    assert made is not None
    assert (made.rule, made.reference) == READINGS[reading]
    assert type(made.purifier).__name__ == purifier
    wanted = models.load("cifar10-unified").state_dict()
    assert all(bool((value == wanted[key]).all()) for key, value in made.classifier.state_dict().items())


@pytest.mark.parametrize(
    "name",
    ["cifar10-unified", "cifar10-unified+pca-reconstruction", "nobody+vae", "cifar10-unified+", "+vae"],
)
def test_other_names_mean_nothing(name: str) -> None:
    assert by_name(name) is None
    assert name not in all_names()
