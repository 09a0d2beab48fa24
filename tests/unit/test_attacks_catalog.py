"""Attacks by name: wrong labels and settings are one sentence."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from alu.attacks.catalog import make_attack
from alu.errors import AluError, UsageError
from tests.toys import CLASSES, toy_defense, toy_images


@pytest.mark.parametrize("name", ["decoy", "hopskipjump", "pgd"])
def test_labels_beyond_the_classes_are_refused(name: str) -> None:
    with pytest.raises(AluError, match="label"):
        make_attack(name, eps=0.05)(toy_defense(), toy_images(2), torch.tensor([0, CLASSES]))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"steps": "abc"}, "of type int; it was given 'abc'"),
        ({"steps": 2.5}, "of type int; it was given 2.5"),
        ({"random_start": 3}, "of type bool"),
        ({"step_size": "big"}, r"of type float \| None"),
    ],
)
def test_settings_of_another_type_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make_attack("pgd", **settings)


def test_an_unknown_budget_is_refused() -> None:
    with pytest.raises(UsageError, match="no budget 'quik'"):
        make_attack("decoy", budget="quik")
