"""robust-base: each image falls at one radius, strong attacks meet it once, and parts are joined."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from alu.attacks import CWLinf
from alu.paper import robust_base
from alu.paper.robust_base import PINNED, RADII, Key, cells, standing, view
from alu.paper.store import Results
from alu.paper.views import Table
from alu.paper.workbench import ImageSet, Workbench

SIZES = {"pinned": 20, "n": 10, "part": 10, "first": 2, "steps": 2, "whole": 0}


def test_the_pinned_base_has_more_parts() -> None:
    keys = [cell.key for cell in cells(SIZES)]
    assert [key.part for key in keys if key.classifier == PINNED] == [0, 1]
    assert [key.part for key in keys if key.classifier == "cifar10-mart"] == [0]


DISTANCES = torch.tensor([-1.0, 0.5, 1.5, 3.0, 3.0, 5.0, 7.0, 7.0, 9.0, 20.0]) / 255
"""How far each image of the toy is from the boundary of its two classes; the first one is wrong when clean."""


class Halves(nn.Module):
    """A linear classifier: an image belongs to class 1 as far as its mean is above one half."""

    def forward(self, images: Tensor) -> Tensor:
        logit = 10 * (images.mean((1, 2, 3)) - 0.5)
        return torch.stack([-logit, logit], 1)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The toy in place of a bundled network; filled with radius and number of images of each strong attack."""
    calls: list[tuple[int, int]] = []
    images = (0.5 + DISTANCES).view(-1, 1, 1, 1).expand(-1, 3, 4, 4).contiguous()
    drawn = ImageSet("toy", images, torch.ones(len(images), dtype=torch.int64))
    monkeypatch.setattr(Workbench, "classifier", lambda *_: Halves())
    monkeypatch.setattr(Workbench, "images", lambda *_: drawn)

    def strong(bench: Workbench, classifier: str, radius: int) -> Iterator[tuple[str, Any]]:
        def counted(model: Any, images: Tensor, labels: Tensor, numbers: Any) -> Tensor:
            calls.append((radius, len(images)))
            return CWLinf(eps=radius / 255, steps=50)(model, images, labels, numbers=numbers)

        yield "counted", counted

    monkeypatch.setattr(robust_base, "strong", strong)
    return calls


@pytest.mark.parametrize("first", [1, 20])
def test_each_image_falls_where_it_must(asked: list[tuple[int, int]], first: int) -> None:
    measured = robust_base.measure(Workbench(SIZES | {"first": first}), Key(PINNED, 0))
    assert measured["clean"] == "0111111111"
    for radius in RADII:
        assert measured["stands"][str(radius)] == "".join("01"[int(255 * one > radius)] for one in DISTANCES)


def test_strong_attacks_leave_what_they_cannot_break(asked: list[tuple[int, int]]) -> None:
    robust_base.measure(Workbench(SIZES | {"first": 50}), Key(PINNED, 0))
    assert dict(asked) == {8: 2, 6: 2, 4: 1, 2: 2, 1: 1}, "each image once, where it stands by a hair"


def results(*parts: int) -> Results:
    cell = {
        "n": 10, "clean": "1111111100", "stands": {str(radius): "1" * (8 - at) + "0" * (2 + at) for at, radius in
        enumerate(RADII)}, "attacks": {},
    }  # fmt: skip
    found = {str(Key(PINNED, part)): {"found": cell} for part in parts}
    return Results({"robust-base": {"sizes": SIZES, "cells": found}})


def test_parts_are_joined_and_none_may_be_missing() -> None:
    whole = standing(results(0, 1), PINNED)
    assert {radius: held.count("1") for radius, held in whole.items()} == {0: 16, 1: 16, 2: 14, 4: 12, 6: 10, 8: 8}
    assert standing(results(0), PINNED) == {}
    table = view(results(0, 1))[0]
    assert isinstance(table, Table)
    assert table.rows[0][-1].startswith("40.0 [")
    assert len(view(results(0, 1))) == 2
    assert len(view(results(0))) == 1
