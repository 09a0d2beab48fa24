"""certificates: what is proven is counted by radius, and an attack beyond the radius would be seen."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from alu.models import Smoothed
from alu.paper import certificates
from alu.paper.certificates import PLUGGED_IN, SYSTEMS, Key, attacked, cells, joined, proven, view
from alu.paper.store import Results
from alu.paper.workbench import Workbench
from tests.linear import Linear, linear_data
from tests.paper.toys import note, points, rows

SIZES = {
    "n": 4, "few": 2, "part": 2, "samples": 10_000, "first": 10, "steps": 5, "draws": 8, "judged": 500,
}  # fmt: skip


def test_systems_that_saw_no_noise_are_measured_on_fewer_images() -> None:
    keys = [str(cell.key) for cell in cells(SIZES)]
    assert keys == [
        "cifar10-smooth/0", "cifar10-smooth/1", "cifar10-smooth-50/0", "cifar10-smooth-50/1", f"{PLUGGED_IN}/0",
        f"{PLUGGED_IN}/1", "cifar10-standard + cifar10-unet/0", "cifar10-standard + cifar10-vae/0",
    ]  # fmt: skip
    assert cells(SIZES)[4].needs == ("cifar10-standard", "cifar10-denoiser")


def test_a_cell_holds_what_certify_says_of_its_own_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        SYSTEMS, "cifar10-smooth", certificates.Smoothing("cifar10-standard", 0.02, certificates.Colour.BLUE)
    )
    small = SIZES | {"samples": 40}
    bench = Workbench(small)
    drawn = bench.images("cifar10", "test", 4)
    for part in (0, 1):
        measured = certificates.measure(bench, Key("cifar10-smooth", part))
        model = Smoothed(bench.classifier("cifar10-standard"), sigma=0.02)
        here = slice(2 * part, 2 * part + 2)
        labels, radii = model.certify(drawn.images[here], n=40, n0=10)
        assert measured["radii"] == pytest.approx(radii.tolist(), abs=1e-4)
        assert all(one <= two for one, two in zip(measured["radii"], radii.tolist(), strict=True))
        assert measured["right"] == "".join(str(int(same)) for same in labels == drawn.labels[here])
        assert measured["answered"].count("1") == int((labels >= 0).sum()) == len(measured["attacked"]) > 0
        assert "0" not in measured["attacked"]
        assert measured["samples"] == 2 * 50


@pytest.mark.parametrize(("share", "flips"), [(0.99, False), (1.6, True)])
def test_the_attack_would_break_a_radius_that_is_too_large(
    monkeypatch: pytest.MonkeyPatch, share: float, flips: bool
) -> None:
    monkeypatch.setattr(certificates, "JUST_INSIDE", share)
    data = linear_data(12)
    direction: Any = Linear().direction
    exact = ((data.images.flatten(1) - 0.5) @ direction).abs() / direction.norm()
    far = [at for at in range(12) if exact[at] > 0.05]
    assert len(far) > 4

    def smoothed(seed: int) -> Smoothed:
        return Smoothed(Linear(), sigma=0.25, draws=8, seed=seed)

    bench = Workbench(SIZES | {"steps": 20})
    found = "".join(
        attacked(bench, smoothed, data.images[at : at + 1], data.own[at : at + 1], float(exact[at]), at) for at in far
    )
    assert ("1" not in found and found.count("0") >= len(far) - 1) if flips else "0" not in found, found


def results(system: str = "cifar10-smooth", *parts: int) -> Results:
    cell = {
        "n": 4, "right": "1110", "answered": "1111", "radii": [0.1, 0.25, 0.7, 0.9], "samples": 4, "attacked": "1120",
    }  # fmt: skip
    found = {str(Key(system, part)): {"found": cell} for part in parts}
    return Results({"certificates": {"sizes": SIZES, "cells": found}})


def test_shares_by_radius() -> None:
    whole = joined(results("cifar10-smooth", 0, 1), "cifar10-smooth")
    assert [proven(whole, radius).count for radius in (0.0, 0.25, 0.5, 0.75)] == [6, 4, 2, 0]
    assert proven(whole, 0.5, "answered").count == 4
    assert proven(whole, 0.0).n == 8
    assert joined(results("cifar10-smooth", 0), "cifar10-smooth") == {}


def test_the_view() -> None:
    table, chart, bars, rule, attack = view(results("cifar10-smooth", 0, 1))
    shown = rows(table)["cifar10-smooth"]
    assert [cell.split(" ")[0] for cell in shown] == ["75.0", "50.0", "25.0", "0.0", "–"]
    assert rows(table)[PLUGGED_IN] == ["not measured yet"]
    assert rows(table)["published: ResNet-20, noise 0.5, consistency of weight 5"][-1] == "32.7"
    assert points(chart)["cifar10-smooth/0.25"] == "0.5"
    assert rows(bars)["cifar10-smooth at 0.25"][0] == "60"
    assert [row[-1] for row in rows(bars).values()] == ["not met", "not met"]
    assert [cell[:4] for cell in rows(rule)["cifar10-smooth, r = 0.5"]] == ["50.0", "25.0"]
    assert rows(attack)["cifar10-smooth"] == ["8", "2", "4", "2", "0.008"]
    assert "0.99" in note(attack)


def test_what_no_sample_can_prove_is_no_zero() -> None:
    assert SYSTEMS["cifar10-smooth"].largest(SIZES) == pytest.approx(
        Smoothed(torch.nn.Identity(), sigma=0.25).largest_radius(10_000), abs=1e-6
    )
    shown = rows(view(results("cifar10-smooth-50", 0, 1))[0])["cifar10-smooth-50"]
    assert shown[-1].startswith("0.0 [")
