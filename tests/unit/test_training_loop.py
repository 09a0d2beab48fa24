"""The training loop: exact resume, and what it promises beyond a falling loss."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from alu.data import Dataset
from alu.errors import StorageError
from alu.storage import read_json
from alu.training import loop
from alu.training.loop import Run, train
from alu.training.settings import Settings
from tests.conftest import ROOT
from tests.toys import Killed, small_run


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("step", [1, 6, 8, 13, 18])
def test_an_interrupted_run_ends_with_the_same_bits(tmp_path: Path, optimizer: str, step: int) -> None:
    lr = 0.05 if optimizer == "sgd" else 1e-3
    whole = small_run(tmp_path / "whole", optimizer=optimizer, lr=lr)
    figures = train(whole)

    def die(done: int, total: int, _: dict[str, float]) -> None:
        if done == step:
            raise Killed

    with pytest.raises(Killed):
        train(small_run(tmp_path / "cut", optimizer=optimizer, lr=lr), die)
    resumed = small_run(tmp_path / "cut", optimizer=optimizer, lr=lr)
    assert train(resumed) == figures
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, resumed.model.state_dict()[name]), name
    curves = [(tmp_path / run / "curve.jsonl").read_text().splitlines() for run in ("whole", "cut")]
    assert [json.loads(row)["step"] for row in curves[0]] == [json.loads(row)["step"] for row in curves[1]]


def test_a_parked_run_goes_on_without_its_best_weights(tmp_path: Path) -> None:
    def die(done: int, total: int, _: dict[str, float]) -> None:
        if done == 8:
            raise Killed

    with pytest.raises(Killed):
        train(small_run(tmp_path, epochs=2), die)
    (tmp_path / "best.safetensors").unlink()
    train(small_run(tmp_path, epochs=2))
    assert (tmp_path / "best.safetensors").exists()


def test_it_learns_and_the_loss_falls(tmp_path: Path) -> None:
    losses: list[float] = []
    figures = train(small_run(tmp_path, epochs=6), lambda done, total, now: losses.append(now["loss"]))
    assert figures["accuracy"] >= 0.95
    assert sum(losses[-6:]) < 0.7 * sum(losses[:6])


def test_another_configuration_is_not_resumed(tmp_path: Path) -> None:
    train(small_run(tmp_path, epochs=1))
    with pytest.raises(StorageError, match=r"another run: lr was 0.05 and is now 0.01. Go on with the old settings"):
        train(small_run(tmp_path, epochs=1, lr=0.01))


def test_a_damaged_checkpoint_is_one_sentence(tmp_path: Path) -> None:
    train(small_run(tmp_path, epochs=1))
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(StorageError, match="not a whole checkpoint"):
        train(small_run(tmp_path, epochs=1))


def test_a_long_gradient_is_cut() -> None:
    lengths = []
    for clip in (0.0, 1e-3):
        run = small_run(None, epochs=1, average=0.0, momentum=0.0, warmup=0.01, clip=clip, weight_decay=0.0)
        before = torch.cat([weight.detach().flatten().clone() for weight in run.model.parameters()])

        def stop(done: int, total: int, _: dict[str, float], run: Run = run, before: Tensor = before) -> None:
            after = torch.cat([weight.detach().flatten() for weight in run.model.parameters()])
            lengths.append(float((after - before).norm()))
            raise Killed

        with pytest.raises(Killed):
            train(run, stop)
    assert lengths[1] <= 0.05 * 1e-3 * 1.01 < lengths[0]


def test_only_kernels_and_matrices_decay() -> None:
    groups = loop._optimizer(small_run(None).model, Settings(weight_decay=0.3)).param_groups
    assert [(group["weight_decay"], {weight.ndim > 1 for weight in group["params"]}) for group in groups] == [
        (0.3, {True}), (0.0, {False}),
    ]  # fmt: skip


def test_weights_are_on_their_device_before_anything_is_made_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Elsewhere:
        device = torch.device("meta")
        is_global_zero, world_size, global_rank = True, 1, 0

    devices = []

    def seen(model: nn.Module, _: Settings) -> torch.optim.Optimizer:
        devices.extend(weight.device.type for weight in model.parameters())
        raise Killed

    monkeypatch.setattr(loop, "_launched", lambda _: nullcontext(Elsewhere()))
    monkeypatch.setattr(loop, "_optimizer", seen)
    with pytest.raises(Killed):
        train(small_run(None))
    assert set(devices) == {"meta"}


def swapped(given: Dataset, what: str) -> Dataset:
    """The same name, count and shape, and something else inside."""
    labels, images, classes = given.labels.clone(), given.pixels.clone(), given.classes
    if what == "a label":
        labels[3] = 1 - labels[3]
    elif what == "the classes":
        classes = classes[::-1]
    elif what == "the pictures":
        images = 255 - images
    return Dataset(images, labels, classes, given.name)


@pytest.mark.parametrize("what", ["a label", "the classes", "the pictures"])
def test_other_data_of_the_same_name_are_not_gone_on_with(tmp_path: Path, what: str) -> None:
    train(small_run(tmp_path, epochs=1))
    again = small_run(tmp_path, epochs=1)
    train(again)
    other = small_run(tmp_path, epochs=1)
    other.data = swapped(other.data, what)
    with pytest.raises(StorageError, match="belongs to another run: data was"):
        train(other)


def test_the_loop_costs_little() -> None:
    found = read_json(ROOT / "bench" / "results" / "training.json")
    assert [row["loop_to_bare"] >= 0.9 for row in found["recipes"]] == [True] * len(found["recipes"])
    assert json.dumps(found).count("loop_to_bare") >= 2
