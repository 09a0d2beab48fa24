"""What a run leaves behind: the best weights, the curve, and the last good checkpoint."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alu.check import AluWarning
from alu.errors import DivergedError
from alu.storage import read_tensors
from alu.training.batches import Batch
from alu.training.curve import draw_curve, series
from alu.training.loop import train
from alu.training.objectives import Objective
from tests.toys import Killed, small_run


class Exploding(Objective):
    """A loss that is no number from the fifth step on."""

    steps = 0

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        self.steps += 1
        value = model(batch.images).square().mean()
        return (value * float("nan") if self.steps > 4 else value), {}

    def measure(self, model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {"zero": torch.zeros(len(images))}

    def as_json(self) -> dict[str, object]:
        return {}


def test_a_loss_that_is_no_number_stops_with_the_last_good_checkpoint(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    run.objective = Exploding()
    with pytest.raises(
        DivergedError, match="nan at step 5. The last good checkpoint is kept; start again in another folder with a sm"
    ):
        train(run)
    from alu.storage import read_tensors

    kept = read_tensors(tmp_path / "checkpoint.safetensors")
    assert all(torch.isfinite(tensor).all() for tensor in kept.values() if tensor.is_floating_point())


class Bursting(Exploding):
    """A finite loss whose third gradient is infinite."""

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        self.steps += 1
        value = model(batch.images).square().mean()
        weight = next(iter(model.parameters())).flatten()[0]
        return (value + (weight - weight.detach()).abs().sqrt() if self.steps > 2 else value), {}


def test_weights_that_are_no_numbers_are_not_kept(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    run.objective = Bursting()
    with pytest.raises(
        DivergedError, match="Some weights are NaN or infinite at step 3. The last good checkpoint is kept"
    ):
        train(run)
    from alu.storage import read_tensors

    kept = read_tensors(tmp_path / "checkpoint.safetensors")
    assert all(torch.isfinite(tensor).all() for tensor in kept.values() if tensor.is_floating_point())


class Told(Objective):
    """Held-out figures as they are told."""

    def __init__(self, figures: list[float], better: str = "higher", says: str = "") -> None:
        self.figures, self.better, self.says = iter(figures), better, says  # type: ignore[assignment]

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        return F.cross_entropy(model(batch.images), batch.labels), {}

    def measure(self, model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {"told": torch.full((len(images),), next(self.figures, 0.0))}

    def concern(self, figures: dict[str, float]) -> str:
        return self.says

    def as_json(self) -> dict[str, Any]:
        return {"name": "Told"}


@pytest.mark.parametrize(
    ("figures", "better", "epoch"),
    [
        ([0.5, 0.9, 0.7], "higher", 2),
        ([0.5, 0.3, 0.7], "lower", 2),
        ([0.9, 0.9, 0.7], "higher", 2),
        ([math.nan, 0.2, 0.1], "higher", 2),
    ],
)
def test_the_best_weights_are_kept_and_of_equals_the_later(
    tmp_path: Path, figures: list[float], better: str, epoch: int
) -> None:
    run = small_run(tmp_path, average=0.0)
    run.objective = Told(figures, better)
    seen: dict[int, dict[str, Tensor]] = {}

    def watch(done: int, total: int, _: dict[str, float]) -> None:
        seen[done] = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}

    train(run, watch)
    for name, tensor in seen[6 * epoch].items():
        assert torch.equal(run.model.state_dict()[name], tensor), name


def test_what_is_measured_and_kept_are_the_averaged_weights(tmp_path: Path) -> None:
    run = small_run(tmp_path, epochs=1, average=0.9)
    train(run)
    best, kept = read_tensors(tmp_path / "best.safetensors"), read_tensors(tmp_path / "checkpoint.safetensors")
    for name, tensor in best.items():
        assert torch.equal(tensor, kept[f"average.{name}"]), name
    assert any(not torch.equal(best[name], kept[f"model.{name}"]) for name in best)


def test_a_concern_is_a_warning(tmp_path: Path) -> None:
    run = small_run(tmp_path, epochs=1)
    run.objective = Told([0.5], says="This training overfits.")
    with pytest.warns(AluWarning, match="This training overfits"):
        train(run)


def test_the_curve_is_drawn(tmp_path: Path) -> None:
    from xml.etree import ElementTree

    train(small_run(tmp_path, epochs=2))
    with (tmp_path / "curve.jsonl").open("a") as file:
        file.write('{"step": 12, "lo')  # killed while it wrote
    draw_curve(tmp_path / "curve.jsonl", tmp_path / "curve.svg")
    root = ElementTree.parse(tmp_path / "curve.svg").getroot()
    texts = [node.text for node in root.iter() if node.tag.endswith("text")]
    assert {"loss", "accuracy", "cross entropy", "lr", "training", "held out", "step 12"} <= set(texts)
    rows = [json.loads(line) for line in (tmp_path / "curve.jsonl").read_text().splitlines()[:-1]]
    drawn = series(rows)
    assert [step for step, _ in drawn["accuracy"]["held out"]] == [6, 12]
    assert [step for step, _ in drawn["loss"]["training"]] == [6, 12]
    first = next(node for node in root.iter() if node.tag.endswith("polyline")).attrib["points"]
    before, after = (value for _, value in drawn["lr"]["training"])
    assert before > after
    assert first == "233.0,26.0 404.0,148.0", "the higher value is drawn higher, the later one to the right"


def test_a_curve_cut_short_is_mended(tmp_path: Path) -> None:
    run = small_run(tmp_path, epochs=3)

    def die(done: int, total: int, _: dict[str, float]) -> None:
        if done == 9:
            raise Killed

    with pytest.raises(Killed):
        train(run, die)
    with (tmp_path / "curve.jsonl").open("a") as file:
        file.write('{"step": 12, "lo')
    train(small_run(tmp_path, epochs=3))
    rows = [json.loads(line) for line in (tmp_path / "curve.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [6, 6, 12, 12, 18, 18]


def test_the_curve_too_is_the_same_after_an_interruption(tmp_path: Path) -> None:
    def die(done: int, total: int, _: dict[str, float]) -> None:
        if done == 9:
            raise Killed

    train(small_run(tmp_path / "whole"))
    with pytest.raises(Killed):
        train(small_run(tmp_path / "cut"), die)
    (tmp_path / "cut" / ".checkpoint.safetensors.abcd").write_bytes(b"half")
    train(small_run(tmp_path / "cut"))
    whole, cut = ((tmp_path / run / "curve.jsonl").read_text() for run in ("whole", "cut"))
    assert whole == cut
    assert not list((tmp_path / "cut").glob(".*")), "what a killed process left half-written is gone"
