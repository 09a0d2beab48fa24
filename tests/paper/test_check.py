"""check: on a linear classifier it measures the exact share, and its tables pair the same images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from alu.paper import check, robust_base
from alu.paper.check import BASE, CHECK, CONFIDENCE, DEPLOYED, Key, bound, cells, joined, view
from alu.paper.store import Results
from alu.paper.workbench import ImageSet, Workbench
from tests.linear import Linear, linear_data
from tests.paper.toys import rows

SIZES = {
    "drawn": 60, "n": 60, "few": 30, "part": 30, "steps": 20, "targets": 1, "few steps": 20, "few targets": 1,
    "queries": 20, "calibration": 60,
}  # fmt: skip


def test_the_deployed_check_has_more_parts() -> None:
    keys = [cell.key for cell in cells(SIZES)]
    assert [key.part for key in keys if (key.classifier, key.method, key.radius) == (BASE, CHECK, DEPLOYED)] == [0, 1]
    assert [key.part for key in keys if (key.classifier, key.method, key.radius) == (BASE, CONFIDENCE, 4)] == [0]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Workbench:
    """A linear classifier of two classes, and images at known distances, in place of the bundled ones."""
    toy, every = linear_data(60), check.attacks
    drawn = ImageSet("toy", toy.images, toy.labels)
    monkeypatch.setattr(Workbench, "classifier", lambda *_: Linear())
    monkeypatch.setattr(Workbench, "images", lambda *_: drawn)

    def for_two_classes(*arguments: Any, **settings: Any) -> Iterator[tuple[str, Any]]:
        return ((name, attack) for name, attack in every(*arguments, **settings) if name != "targeted APGD on f")

    monkeypatch.setattr(check, "attacks", for_two_classes)
    return Workbench(SIZES)


@pytest.mark.parametrize("radius", [1, 2, 4])
def test_on_a_linear_classifier_the_share_is_exact(bench: Workbench, radius: int) -> None:
    toy, measured = linear_data(60), check.measure(bench, Key(BASE, CHECK, radius, 1))
    exact = (toy.right & (toy.distance > max(radius, 8 - radius)))[30:]
    assert measured["stands"] == "".join("01"[int(one)] for one in exact)
    assert measured["searched again"] == measured["stands"], "a longer search finds nothing more"
    answered = toy.right & (toy.distance > radius)
    assert [digit == "1" for digit in measured["clean"]] == answered[30:].tolist()
    for within, never in measured["never silenced"].items():
        farther = toy.right & (toy.distance > radius + float(within))
        assert [digit == "1" for digit in never] == farther[30:].tolist()
    assert sum(measured["broken"].values()) == int(answered[30:].sum() - exact.sum())


def test_confidence_refuses_as_many_as_the_check(bench: Workbench) -> None:
    both = [check.defended(bench, Key(BASE, method, 4, 0)) for method in (CHECK, CONFIDENCE)]
    images = linear_data(60).images
    refused = [int((~defense.decide(images).accepted).sum()) for defense in both]
    assert abs(refused[0] - refused[1]) <= 1
    assert check.measure(bench, Key(BASE, CONFIDENCE, 4, 0))["searched again"] == ""


def results() -> Results:
    def cell(clean: str, stands: str) -> dict[str, Any]:
        return {
            "n": 10, "clean": clean, "stands": stands, "contested": "0" * 10, "searched again": stands,
            "broken": {"confident": 2}, "never silenced": {"1": stands, "2": stands, "4": "0" * 10},
        }  # fmt: skip

    found = {
        str(Key(BASE, CHECK, DEPLOYED, 0)): {"found": cell("1111111022", "1111111000")},
        str(Key(BASE, CONFIDENCE, DEPLOYED, 0)): {"found": cell("1111111022", "1110000000")},
        str(Key(BASE, CHECK, DEPLOYED, 1)): {"found": cell("1111111022", "1111110000")},
    }
    base = {"n": 20, "clean": "1" * 20, "stands": {str(r): "1" * (20 - r) + "0" * r for r in robust_base.RADII}}
    sizes = {"pinned": 20, "n": 20, "part": 20}
    held = {str(robust_base.Key(BASE, 0)): {"found": base}}
    return Results({
        "check": {"sizes": SIZES, "cells": found}, "robust-base": {"sizes": sizes, "cells": held},
    })  # fmt: skip


def test_parts_are_joined_up_to_the_first_that_is_missing() -> None:
    whole = joined(results(), BASE, CHECK, DEPLOYED)
    assert whole is not None
    assert whole["stands"] == "11111110001111110000"
    assert whole["broken"] == {"confident": 4}
    plain = joined(results(), BASE, CONFIDENCE, DEPLOYED)
    assert plain is not None
    assert plain["n"] == 10
    assert joined(results(), BASE, CHECK, 4) is None


def test_the_tables_stand_beside_the_classifier_and_beside_confidence() -> None:
    kept, bounds, silenced, broken = (rows(panel) for panel in view(results()))
    row = kept[f"{BASE}, r = 2/255"]
    assert [cell.split(" ")[0] for cell in row] == [
        "80.0", "87.5", "65.0", "60.0", "+5.0", "80.0", "30.0", "+40.0",
    ]  # fmt: skip
    assert [cell.split(" ")[0] for cell in bounds[f"{BASE}, r = 2/255"]] == ["70.0", "65.0", "90.0", "no", "+0.0"]
    assert [cell.split(" ")[0] for cell in silenced[f"{BASE}, r = 2/255"]] == ["70.0", "65.0", "65.0", "0.0"]
    assert broken[f"{BASE}, r = 2/255: confident"] == ["4"]


def test_a_radius_that_was_not_measured_gives_a_weaker_bound() -> None:
    base = {0: "111111", 2: "111100", 4: "111000", 6: "110000", 8: "100000"}
    assert bound(base, 5, lower=True, n=6) == "110000"
    assert bound(base, 3, lower=False, n=6) == "111100"
    assert bound(base, 9, lower=True, n=6) == ""
