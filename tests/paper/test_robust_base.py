"""robust-base: only what stands is attacked further, and parts are joined."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from alu.paper import robust_base
from alu.paper.robust_base import PINNED, RADII, Key, cells, standing, view
from alu.paper.store import Results
from alu.paper.views import Table
from alu.paper.workbench import Workbench

SIZES = {"pinned": 20, "n": 10, "part": 10, "steps": 2, "whole": 0}


def test_the_pinned_base_has_more_parts() -> None:
    keys = [cell.key for cell in cells(SIZES)]
    assert [key.part for key in keys if key.classifier == PINNED] == [0, 1]
    assert [key.part for key in keys if key.classifier == "cifar10-mart"] == [0]


def test_what_fell_at_a_small_radius_is_not_attacked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    exact = robust_base.attacks

    def watched(bench: Workbench, classifier: str, radius: int) -> Any:
        for name, attack in exact(bench, classifier, radius):

            def counted(model: Any, images: Any, labels: Any, numbers: Any, run: Any = attack) -> Any:
                asked.append((radius, len(images)))
                return run(model, images, labels, numbers=numbers)

            yield name, counted

    monkeypatch.setattr(robust_base, "attacks", watched)
    measured = robust_base.measure(Workbench(SIZES), Key(PINNED, 1))
    counts = [count for _, count in asked]
    assert counts == sorted(counts, reverse=True)
    digits = [measured["clean"], *measured["stands"].values()]
    for before, after in pairwise(digits):
        assert all(one >= two for one, two in zip(before, after, strict=True))
    assert counts[0] == measured["clean"].count("1")


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
