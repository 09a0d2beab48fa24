"""What the training loop and the objectives promise beyond a falling loss: each planted fault fails a case here."""

from __future__ import annotations

import json
import math
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alu.check import AluWarning
from alu.data import Dataset
from alu.errors import DataError, StorageError, UsageError
from alu.storage import read_json, read_tensors
from alu.training import loop
from alu.training.adversarial import (
    AdversarialObjective,
    AdversarialTraining,
    Climb,
    Friendly,
    Gairat,
    Mart,
    Trades,
    divergence,
)
from alu.training.awp import AWP
from alu.training.batches import Batch, batches
from alu.training.loop import Run, train
from alu.training.objectives import Objective
from alu.training.recipes import recipe, seeded
from alu.training.settings import Settings
from tests.conftest import ROOT
from tests.toys import Toy, toy_data
from tests.unit.test_objectives import EPS, batch
from tests.unit.test_training import Killed, small_run


class Three(nn.Module):
    """Three classes on three pixels: logits are the pixels, times a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.tensor([4.0, 5.0, 6.0]))

    def forward(self, images: Tensor) -> Tensor:
        return self.gain * images.flatten(1)


def pixels() -> Batch:
    given = batch(0.5, 0.5)
    given.images = torch.tensor([[[[0.6, 0.5, 0.2]]], [[[0.1, 0.4, 0.5]]]])
    given.labels = torch.tensor([0, 2])
    return given


def slope_of(objective: AdversarialObjective) -> Tensor:
    model = Three()
    loss, _ = objective.loss(model, pixels())
    (found,) = torch.autograd.grad(loss, model.gain)
    return found


def by_hand(objective: AdversarialObjective, value: Any) -> Tensor:
    """The gradient of an own formula, on the images that the objective finds."""
    model, given = Three(), pixels()
    found = objective.attack(model, given)
    loss = value(model(found.images), model(given.images), given.labels)
    (slope,) = torch.autograd.grad(loss, model.gain)
    return slope


def test_the_gradient_of_trades_goes_through_both_answers() -> None:
    objective = Trades(beta=3.0, steps=2, step_size=EPS / 2)

    def value(attacked: Tensor, clean: Tensor, labels: Tensor) -> Tensor:
        p, q = clean.softmax(1), attacked.softmax(1)
        return F.cross_entropy(clean, labels) + 3.0 * (p * (p.log() - q.log())).sum(1).mean()

    torch.testing.assert_close(slope_of(objective), by_hand(objective, value))


def test_the_gradient_of_mart_by_hand_on_three_classes() -> None:
    objective = Mart(weight=2.0, steps=2, step_size=EPS / 2)

    def value(attacked: Tensor, clean: Tensor, labels: Tensor) -> Tensor:
        p, q = clean.softmax(1), attacked.softmax(1)
        rows = torch.arange(2)
        strongest = torch.stack([q[row][[k for k in range(3) if k != int(labels[row])]].max() for row in rows])
        boosted = -q[rows, labels].log() - (1.0001 - strongest).log()
        apart = (p * (p.log() - q.log())).sum(1) * (1 - p[rows, labels])
        return (boosted + 2.0 * apart).mean()

    torch.testing.assert_close(slope_of(objective), by_hand(objective, value))


def test_the_surest_mistake_keeps_a_slope_in_mart() -> None:
    class Sure(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gain = nn.Parameter(torch.tensor(9.0))

        def forward(self, images: Tensor) -> Tensor:
            return torch.stack([-self.gain, self.gain]).expand(len(images), 2) + 0 * images.flatten(1)[:, :2]

    model, given = Sure(), batch(0.5, labels=(0,))
    boosted = Mart(steps=1).loss(model, given)[1]["boosted"]
    plain = F.cross_entropy(model(given.images), given.labels)
    (whole,), (part,) = torch.autograd.grad(boosted, model.gain), torch.autograd.grad(plain, model.gain)
    assert float(whole - part) > 1e-4


def test_trades_climbs_the_divergence_and_not_the_cross_entropy() -> None:
    # Wrong clean: away from the label is where cross-entropy leads, the divergence may lead back.
    model, apart = Three(), []
    for objective in (Trades(steps=4, step_size=EPS / 4), AdversarialTraining(steps=4, start=0.001 / EPS)):
        given = pixels()
        given.labels = torch.tensor([2, 0])
        found = objective.attack(model, given).images
        apart.append(float(divergence(model(given.images), model(found)).mean().detach()))
    assert apart[0] > 1.1 * apart[1]


def test_friendly_counts_mistakes_and_not_steps() -> None:
    """A model that is mistaken at the first step, right at the second, and mistaken from the third on."""

    class Schedule(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, images: Tensor) -> Tensor:
            wrong = self.calls != 1
            self.calls += 1
            value = images.flatten(1).sum(1)
            flat = value - value.detach()
            return torch.stack([flat + (0.0 if wrong else 1.0), 0 * value + (1.0 if wrong else 0.0)], 1)

    start = torch.full((1, 1, 1, 2), 0.2)
    found = Climb(1.0, 5, 0.1)(
        Schedule(), start, torch.tensor([0]), torch.zeros_like(start), lambda logits: logits[:, 0], patience=1
    )
    # Moves at step 0 (first mistake), 1 (right), and stops at 2, its second mistake.
    torch.testing.assert_close(found.images, start + 0.2)


class Normed(nn.Module):
    """Batch normalisation that counts whose statistics a search uses."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.last = nn.Linear(4, 2)

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.last(self.norm(images.flatten(1)))
        return out


@pytest.mark.parametrize(
    ("objective", "updates"),
    [
        (AdversarialTraining(steps=3), 4),
        (Trades(steps=3), 2),
        (Mart(steps=3), 2),
        (Friendly(steps=3), 1),
        (Gairat(steps=3), 1),
        (AWP(Trades(steps=3)), 4),
    ],
)
def test_whose_statistics_a_search_uses(objective: Objective, updates: int) -> None:
    model = seeded(Normed, 0).train()
    given = batch(0.5, 0.5)
    given.images, given.labels = torch.rand(6, 1, 2, 2), torch.tensor([0, 1] * 3)
    given.draws.rows, given.draws.total = slice(0, 6), 6
    objective.loss(model, given)
    assert int(model.norm.num_batches_tracked) == updates  # type: ignore[arg-type]
    assert model.training
    assert model.norm.training


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


def test_a_concern_is_a_warning(tmp_path: Path) -> None:
    run = small_run(tmp_path, epochs=1)
    run.objective = Told([0.5], says="This training overfits.")
    with pytest.warns(AluWarning, match="This training overfits"):
        train(run)


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


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"momentum": -1.0}, r"momentum is a share in \[0, 1\)"),
        ({"momentum": 1.0}, r"momentum is a share in \[0, 1\)"),
        ({"weight_decay": -1.0}, "weight_decay of 0 or more; it is -1.0"),
        ({"clip": -1.0}, "clip of 0 or more; it is -1.0"),
        ({"drops": [[80, -0.2]]}, "a share between 0 and 1"),
    ],
)
def test_settings_out_of_range(setting: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Settings(**setting)


def test_drops_may_come_in_any_order() -> None:
    made = Settings(schedule="steps", lr=1.0, drops=((100, 0.04), (80, 0.2)))
    assert [made.rate(0, 1, epoch) for epoch in (79, 80, 99, 100)] == pytest.approx([1.0, 0.2, 0.2, 0.04])


def test_few_and_tiny_pictures() -> None:
    own = recipe("classifier")
    assert own.settings_for(toy_data(14, Toy())).batch_size == 2  # type: ignore[attr-defined]
    tiny = Dataset(torch.rand(20, 3, 4, 4), torch.arange(20) % 2, ("a", "b"), "tiny")
    with pytest.raises(DataError, match="at least 8 x 8 pixels; those of tiny are 4 x 4"):
        own.build(tiny)  # type: ignore[operator]


def test_holes_fall_inside_images_that_are_not_square() -> None:
    images = Dataset(torch.zeros(64, 3, 8, 32), torch.arange(64) % 2, ("a", "b"), "wide")
    (only,) = batches(images, Settings(batch_size=64, augment="crop-flip-cutout"), 0)
    holes = (only.images == 0.5).flatten(1).any(1).float().mean()
    assert float(holes) > 0.95


def test_the_loop_costs_little() -> None:
    found = read_json(ROOT / "bench" / "results" / "training.json")
    assert [row["loop_to_bare"] >= 0.9 for row in found["recipes"]] == [True] * len(found["recipes"])
    assert json.dumps(found).count("loop_to_bare") >= 2
