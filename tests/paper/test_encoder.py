"""The map of VAEs: what one step does for a linear one, what a cell measures, what is drawn, and the claims."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import alu
from alu import models
from alu.models.deep_vae import DeepVAE
from alu.paper.claims import FAILS, FEW, HOLDS, UNKNOWN
from alu.paper.encoder import EXPERIMENT
from alu.paper.encoder_map import ATTACK, BEST, BUNDLED, CODE, OWN, PLUG_IN, STEPS, Key, nearest, points
from alu.paper.views import Table
from alu.paper.workbench import Workbench
from alu.purifiers import PCA, LatentVAE
from alu.training.recipes.deep import principal
from tests.contracts.parts import images_like
from tests.paper import toys


def vae(code: int, layout: str = "dense", encoder: str = "deep") -> DeepVAE:
    made = models.deep_vae(size=16, code=code, layout=layout, encoder=encoder, width=8)  # type: ignore[arg-type]
    return made.eval()


@pytest.mark.parametrize(("layout", "code"), [("dense", 12), ("spatial", 48)])
def test_one_step_of_rate_one_half_reaches_the_best_code(layout: str, code: int) -> None:
    images = images_like(60, (3, 16, 16))
    made = principal(vae(code, layout), images)
    best, more = (
        LatentVAE(made, steps=steps, lr=0.5, solver="gd", schedule="constant").outputs(images, [steps])[0]
        for steps in (1, 7)
    )
    torch.testing.assert_close(best, more, atol=1e-5, rtol=0)
    if layout == "dense":
        torch.testing.assert_close(best, PCA(code).fit(images)(images), atol=1e-5, rtol=0)


def row(everything: str, flagged: str, clean: str) -> dict[str, Any]:
    attacked = {"alu": everything, "all flagged": everything, "flagged": flagged, "purified": everything}
    calm = {"alu": clean, "all flagged": clean, "flagged": "0" * len(clean), "purified": clean}
    return {"threshold": 1.0, "clean": calm, "attacked": attacked}


def cell(*rows: dict[str, Any], moved: tuple[float, float] = (0.02, 0.004)) -> dict[str, Any]:
    """A cell of rate 0.1 with these rows after 1, 2, 5 … steps."""
    steps = {str(count): one for count, one in zip(STEPS, rows, strict=False)}
    away = {CODE: [moved[0]] * 100, BEST: [moved[1]] * 100, ATTACK: [0.03] * 100}
    return {
        "n": 100, "by rate": {"0.1": steps}, "moved": away, "f on the attacked picture": "1" * 100,
        "reconstructed": {"error": {CODE: [0.05] * 100, BEST: [0.04] * 100}, "clean": "1" * 100},
    }  # fmt: skip


ALL, MOST, HALF, NONE = "1" * 100, "1" * 85 + "0" * 15, "1" * 50 + "0" * 50, "0" * 100
POOR, GOOD = cell(row(HALF, NONE, MOST)), cell(row(HALF, NONE, ALL), row(ALL, ALL, ALL))


def test_the_nearest_point_is_the_one_that_lacks_least() -> None:
    best = nearest(GOOD)
    assert (str(best), best.lacks) == ("N = 2 at rate 0.1", pytest.approx(-0.1 + 0.05))
    assert nearest(cell(row(ALL, NONE, ALL), row(HALF, HALF, ALL))).steps == 2, "45 points missing beat 90"
    assert len(points(GOOD)) == 2


def test_the_paper_stands_beside_what_was_measured() -> None:
    found = toys.results(
        {BUNDLED[0]: POOR, Key("dense 64, whitened", OWN): GOOD, Key("dense 256, whitened", PLUG_IN): POOR}
    )
    table, by_code, by_steps, moves, *folded = EXPERIMENT.view(found)
    shown = toys.rows(table)
    assert shown["dense 64, whitened/own"][2] == "N = 2 at rate 0.1"
    assert shown["cifar10-vae/cifar10-unified"][5].startswith("50.0")
    drawn = toys.points(by_code)
    assert drawn["own/64"] == "1.0"
    assert drawn[f"{PLUG_IN}/256"] == "0.0", "the chart of what is flagged comes last"
    assert not isinstance(by_steps, Table)
    assert "dense 64, whitened/own, rate 0.1/2" in toys.points(by_steps)
    assert all(("the paper", "var(--grey)") in chart.legend for chart in by_steps)
    assert not isinstance(moves, Table)
    assert [chart.title.rpartition(": ")[2] for chart in moves] == [str(BUNDLED[0]), "dense 64, whitened/own"]
    assert len(folded) == 3


def test_the_paper_is_reached_or_not() -> None:
    def status(**cells: dict[str, Any]) -> Any:
        kept = {BUNDLED[0]: POOR} | {Key(f"dense {name[1:]}, whitened", OWN): one for name, one in cells.items()}
        return toys.verdict(toys.results(kept), "labels come back and attacks are seen")

    assert status(_64=GOOD).status == HOLDS
    assert status(_64=GOOD).figures[0].startswith("dense 64, whitened/own, N = 2")
    assert "the paper's own attack" in status(_64=GOOD).limit
    assert status().status == FAILS
    blind = cell(row(ALL, ALL, HALF))
    assert status(_64=blind).figures[0].startswith("cifar10-vae/"), "a VAE that keeps no clean answer does not count"
    assert status(_64=cell(row("1" * 96 + "0" * 4, ALL, ALL))).status == FEW
    assert toys.verdict(toys.results({}), "labels come back and attacks are seen").status == UNKNOWN


def test_the_code_is_restored_or_not() -> None:
    def status(*cells: dict[str, Any]) -> Any:
        kept = dict(zip((BUNDLED[0], Key("dense 64, whitened", OWN)), cells, strict=False))
        return toys.verdict(toys.results(kept), "the picture restores the code")

    assert status(cell(row(ALL, ALL, ALL), moved=(0.02, 0.019))).status == FAILS
    split = status(cell(row(ALL, ALL, ALL), moved=(0.02, 0.019)), GOOD)
    assert (split.status, split.limit) == (HOLDS, "On dense 64, whitened/own only")


def test_a_linear_vae_and_its_classifier_are_trained_by_the_cell(tmp_path: Any) -> None:
    try:
        alu.data.cifar10("train")
    except alu.AluError as error:
        pytest.skip(f"needs CIFAR-10: {error}")
    sizes = {
        **EXPERIMENT.form(True), "n": 4, "calibration": 200, "steps": 2, "width": 8, "train": 384, "validation": 20,
        "encoder epochs": 2, "classifier epochs": 1,
    }  # fmt: skip
    bench = Workbench(sizes)
    bench.shared = tmp_path
    measured = EXPERIMENT.measure(bench, Key("dense 256, deep", OWN))
    assert set(measured["by rate"]["0.1"]) == {"1", "2"}
    assert measured["curvature"] == pytest.approx(2.0, rel=1e-3), "of orthonormal directions"
    assert {path.name for path in tmp_path.iterdir()} == {"dense 256, deep", "dense 256, deep, classifier"}
    errors = measured["reconstructed"]["error"]
    assert sum(errors[BEST]) < sum(errors[CODE])


def test_a_whitened_encoder_sees_every_direction_at_the_same_size() -> None:
    images = images_like(80, (3, 16, 16))
    made = principal(vae(12, encoder="whitened"), images).train()
    seen = made.encoder[:3](images - 0.5).permute(1, 0, 2, 3).flatten(1)
    torch.testing.assert_close(torch.cov(seen), torch.eye(12), atol=0.05, rtol=0)
