"""What commands share out is the same wherever it runs: cells, attacks of a fit, certificates, answers for pictures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import alu
from alu import Workers, data
from alu.cli.answers import Row
from alu.cli.certify import certified
from alu.cli.predict import answered
from alu.cli.reading import Portion, read_ahead
from alu.fitted import oblivious
from alu.models import Smoothed
from alu.paper import EXPERIMENTS
from alu.paper.running import run
from alu.progress import silent
from alu.purifiers import Blur
from alu.workers import Pool, ThisProcess
from tests.paper.test_running import Counted, Key
from tests.toys import Toy, toy_data, toy_defense, toy_images

TINY = {"calibration": (200, 200), "n": (2, 2), "adaptive": (2, 2)}


def cells(out: Path, workers: Pool | None, only: str = "[cap]*[n0e]") -> dict[str, Any]:
    """Two cells of table 1 on two images, without their seconds."""
    experiment = EXPERIMENTS["table1"]
    sizes = {name: TINY.get(name, (2, 2)) for name in experiment.sizes}
    measured = run(replace(experiment, sizes=sizes), out, only=only, workers=workers)["cells"]
    return {key: {name: value for name, value in cell.items() if name != "seconds"} for key, cell in measured.items()}


def test_cells_are_the_same(workers: Workers, tmp_path: Path) -> None:
    one, two = cells(tmp_path / "one.json", None), cells(tmp_path / "two.json", workers)
    assert "clean" in two
    assert len(two) > 1
    assert two == one
    assert list(two) == list(one), "in the experiment's order"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.json", "two.json"]


def test_interrupted_cells_are_kept_and_times_are_measured_alone(workers: Workers, tmp_path: Path) -> None:
    out, told = tmp_path / "toy.json", []

    def interrupt(what: str, done: int, total: int) -> None:
        told.append((what, done, total))
        if done == 1:
            raise KeyboardInterrupt

    experiment = Counted().experiment()
    with pytest.raises(KeyboardInterrupt):
        run(experiment, out, workers=workers, watch=interrupt)
    kept = alu.paper.store.read(out)["cells"]  # type: ignore[attr-defined]
    assert len(kept) == 1
    again = run(experiment, out, workers=workers)["cells"]
    assert {key: again[key] for key in kept} == kept, "not measured again"
    assert again.keys() == {"first", "second", "third"}
    counted = Counted()
    run(replace(counted.experiment(), timed=True), tmp_path / "timed.json", workers=workers)
    assert counted.runs == {str(Key("first")): 1, str(Key("second")): 1}, "by this process"
    assert EXPERIMENTS["timing"].timed


def test_attacks_of_a_fit_are_the_same(workers: Workers) -> None:
    defense, images = toy_defense(), toy_images(10)
    with torch.no_grad():
        labels = defense.logits(images).argmax(1)
    told: list[tuple[int, int]] = []
    one, _ = oblivious(defense, images, labels, 4, 0, silent)
    two, why = oblivious(defense, images, labels, 4, 0, lambda *words: told.append(words), workers=workers)
    assert one is not None
    assert two is not None
    assert torch.equal(one, two)
    assert why == ""
    assert told == [(0, 10), (4, 10), (8, 10), (10, 10)]
    assert not torch.equal(one, images)


class Numpy(Toy):
    """A classifier without a gradient."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return super().forward(torch.from_numpy(images.detach().numpy()))


def test_a_worker_says_too_that_there_is_no_gradient(workers: Workers) -> None:
    defense, images = alu.Defense(Numpy(), Blur(0.5), rule="purified"), toy_images(4)
    labels = defense.logits(images).argmax(1)
    answers = [oblivious(defense, images, labels, 4, 0, silent, workers=pool) for pool in (None, workers)]
    assert answers[0] == answers[1]
    assert "The classifier was not attacked: it has no gradient." in answers[1][1]


def test_certificates_are_the_same(workers: Workers) -> None:
    smoothed, some = Smoothed(Toy(), sigma=0.1), toy_data(6)
    asked = {"n": 40, "n0": 10, "alpha": 0.01, "radius": None}
    pieces = [(part.images, part.labels.tolist()) for part in (some.take(range(3)), some.take(range(3, 6)))]
    one, two = (
        dict(pool.run(certified, (smoothed, asked), pieces, in_order=True)) for pool in (ThisProcess(), workers)
    )
    assert one == two
    assert one[0][0].keys() == {"true", "label", "radius", "samples"}


@pytest.mark.parametrize("exported", [False, True])
def test_answers_for_pictures_are_the_same(workers: Workers, saved_pca: Path, tmp_path: Path, exported: bool) -> None:
    defense: Any = alu.Defense.load(saved_pca)
    if exported:
        pytest.importorskip("onnxruntime")
        alu.export(defense, tmp_path / "export")
        defense = alu.exported.load(tmp_path / "export", threads=1)
    for number, image in enumerate(data.sample("test").images[:4]):
        data.pictures.as_picture(image).save(tmp_path / f"{number}.png")
    (tmp_path / "bad.png").write_bytes(b"no picture")

    def pieces() -> Iterator[Portion]:
        rows: list[Row] = [{"file": str(tmp_path / f"{name}.png"), "error": None} for name in (0, 1, "bad", 2, 3)]
        return read_ahead(rows, 3, defense.shape, False)

    one, two = (dict(pool.run(answered, defense, pieces())) for pool in (ThisProcess(), workers))
    assert one == two
    assert "is no known picture format" in two[0][0][2]["error"]
    assert two[1][0][0]["p_value"] > 0
