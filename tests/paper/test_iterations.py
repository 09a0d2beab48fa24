"""Descents: each number of steps gives what a purifier with so many steps gives; both ablations, drawn and decided."""

from __future__ import annotations

from typing import Any

import torch

from alu.paper import iterations, learning_rate
from alu.paper.base import System
from alu.paper.claims import FAILS, FEW, HOLDS
from alu.paper.iterations import ATTACKED, CLASSIFIERS, COLUMNS, PAPERS, READINGS, VAE, measure_steps
from alu.paper.learning_rate import SETTINGS
from alu.paper.store import Column, digits
from alu.paper.views import Table
from alu.paper.workbench import Workbench
from alu.purifiers import LatentVAE
from tests.paper.toys import points, results, rows


def test_a_descent_gives_what_each_number_of_steps_gives() -> None:
    bench = Workbench({"n": 12, "calibration": 200})
    whole, clean = LatentVAE(VAE, steps=4, lr=1e-2, schedule="constant"), bench.test_images()
    for count, output in zip((0, 1, 4), whole.outputs(clean.images, (0, 1, 4)), strict=True):
        alone = LatentVAE(VAE, steps=count, lr=1e-2, schedule="constant")
        torch.testing.assert_close(output, alone(clean.images))
    measured = measure_steps(bench, whole, "test", [0, 4], bench.images("cifar10", "calibration", 200), clean)
    for classifier in CLASSIFIERS:
        row = measured[classifier]
        assert set(row[Column.CLEAN]["4"]) == {"purified", "input", "reconstruction"}
        nothing = row[ATTACKED]["0"]["reconstruction"]
        assert nothing["flagged"] == "0" * 12, "without steps nothing changes, so nothing is flagged"
        assert nothing["score / threshold"] == [0, 0, 0]
        for column in COLUMNS:
            images = bench.attacked_as(column, System(classifier, VAE), clean)
            answer = bench.classifier(classifier)(whole(images.images)).argmax(1)
            assert row[column]["4"]["purified"] == digits(answer == images.labels)
            moved = row[column]["4"]["input"]
            assert all(score > 0 for score in moved["score / threshold"])
            assert (moved["flagged"].count("1") > 6) <= (moved["score / threshold"][1] > 1), "the median is flagged"


ONE = {"purified": "1", **{reading: {"alu": "1", "all flagged": "1", "flagged": "0"} for reading in READINGS}}


def test_iterations_draw_the_papers_points_in_grey() -> None:
    by = {column: {"0": ONE, "20": ONE} for column in COLUMNS}
    measured = {"solver": "Adam", "n": 1, "cifar10-unified": by, "cifar10-at": by}
    drawn = iterations.view(results({iterations.Key(start): measured for start in ("encoder", "sampled")}))
    first, plain, *_ = charts = [panel for panel in drawn if not isinstance(panel, Table)]
    assert points(first)["paper/attacked/0"] == "0.0863"
    assert not any(key.startswith("paper/") for key in points(plain)), "whose figures fit the reconstruction reading"
    assert "clean, if none were flagged/0" in points(plain)
    assert len(charts) == 6, "two of each classifier from the encoder, and two of the paper's own from elsewhere"
    assert sum("paper/" in "".join(points(panel)) for panel in charts) == 2, "and on the paper's own classifier"
    assert len(drawn) - len(charts) == 8, "a table for each start, classifier and reading"


def test_all_rates_are_in_one_figure_and_each_solver_in_the_papers_axes() -> None:
    by = {column: {"50": ONE} for column in COLUMNS}
    measured = {"n": 1, **dict.fromkeys(CLASSIFIERS, by)}
    cells = {learning_rate.Key(*setting, rate): measured for setting in SETTINGS for rate in (1e-4, 1.0)}
    drawn = learning_rate.view(results(cells))
    first, _, near, *_ = charts = [panel for panel in drawn if not isinstance(panel, Table)]
    assert len(charts) == 2 + 4 + 2 + 2
    assert all(f"{', '.join(setting)}/1.0" in points(first) for setting in SETTINGS)
    assert "paper/detected/0.0001" in points(first)
    assert "attacked, deployed/0.0001" in points(near)
    assert "attacked, deployed/1.0" not in points(near), "the paper's axis ends at 0.01"
    table, *_ = (panel for panel in drawn if isinstance(panel, Table))
    assert len(rows(table)) == 8


def stepped(near: str, far: str, flagged: str = "1" * 100) -> Any:
    by = {
        count: {"reconstruction": {"all flagged": answer, "alu": answer, "flagged": flagged}}
        for count, answer in {"50": near, "200": far}.items()
    }
    measured = {"solver": "Adam", PAPERS: {ATTACKED: by}}
    return iterations.fifty(results({iterations.Key("encoder"): measured}))


def test_fifty_steps() -> None:
    assert stepped("1" * 98 + "0" * 2, "1" * 98 + "0" * 2).status == HOLDS
    assert stepped("1" * 70 + "0" * 30, "1" * 90 + "0" * 10).status == FAILS
    seven = stepped("1" * 70 + "0" * 30, "1" * 65 + "0" * 5 + "1" * 12 + "0" * 18)
    assert seven.status == FEW, "seven points gained is more than three, if not surely"
    assert stepped("0" * 90 + "1" * 10, "0" * 90 + "1" * 10).status == FAILS, "chance has converged too"
    unseen = stepped("1" * 98 + "0" * 2, "1" * 98 + "0" * 2, "1" * 13 + "0" * 87)
    assert unseen.status == FAILS, "the paper promises the detection rate too"
    assert unseen.figures[-1].startswith("flagged: N = 50 13.0")


def rates(small: str, large: str) -> Any:
    cells = {}
    for setting in SETTINGS:
        for rate, answer in ((1e-5, "0" * 100), (1e-4, small), (1e-2, large)):
            row = {"100": {"reconstruction": {"all flagged": answer, "alu": answer}}}
            cells[learning_rate.Key(*setting, rate)] = {PAPERS: dict.fromkeys(COLUMNS, row)}
    return learning_rate.small_rate(results(cells))


def test_small_rates() -> None:
    assert rates("1" * 100, "0" * 100).status == HOLDS
    worse = rates("0" * 100, "1" * 100)
    assert worse.status == FAILS
    assert all("best 100.0 [96.3, 100.0] n=100 at 0.01" in line for line in worse.figures[1:])
    assert rates("1" * 75 + "0" * 25, "1" * 55 + "0" * 21 + "1" * 24).status == FEW
    chance = rates("1" * 10 + "0" * 90, "1" * 10 + "0" * 90)
    assert chance.status == FAILS
    assert sum("not above chance" in line for line in chance.figures) == 8
