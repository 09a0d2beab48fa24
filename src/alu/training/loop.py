"""The training loop: one readable pass over epochs and steps, on any device, resumable to the bit."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from alu.data.dataset import Dataset
from alu.errors import DivergedError
from alu.storage import explained, write_json, write_tensors
from alu.training.batches import Batch, batches, steps_per_epoch
from alu.training.checkpoint import Average, Progress, load_checkpoint, save_checkpoint
from alu.training.objectives import Objective, Step, measured
from alu.training.settings import Settings

Watcher = Callable[[int, int, dict[str, float]], None]
"""Called after every step with steps done, steps in all, and the latest figures."""


@dataclass
class Run:
    """One training: what, on what, how, where. `folder=None` keeps everything in memory and cannot be resumed."""

    model: nn.Module
    objective: Objective
    data: Dataset
    validation: Dataset
    settings: Settings
    folder: Path | None = None
    device: str = "cpu"
    every: float = 180.0
    """Seconds between checkpoints; there is one after each epoch besides."""

    def configuration(self) -> dict[str, Any]:
        """What must be equal for a checkpoint to be resumed."""
        return {
            "architecture": getattr(self.model, "architecture", type(self.model).__name__),
            "objective": self.objective.as_json(),
            "settings": self.settings.as_json(),
            "data": [self.data.name, self.data.split, len(self.data), list(self.data.shape)],
        }


def train(run: Run, watch: Watcher | None = None) -> dict[str, float]:
    """Train `run.model` in place to its best weights and return their held-out figures."""
    fabric = _fabric(run.device)
    model = run.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = _optimizer(model, run.settings)
    average = Average(model, run.settings.average) if run.settings.average else None
    progress = Progress()
    checkpoint = run.folder / "checkpoint.safetensors" if run.folder else None
    if checkpoint is not None and checkpoint.exists():
        progress = load_checkpoint(checkpoint, model, optimizer, average, run.configuration())
        _cut_curve(checkpoint.parent / "curve.jsonl", progress.step)
    step_module, optimizer = fabric.setup(Step(model, run.objective), optimizer)
    keeper = _Keeper(run, fabric, model, optimizer, average, progress)
    per_epoch = steps_per_epoch(run.data, run.settings)
    total = per_epoch * run.settings.epochs
    model.train()
    while progress.step < total:
        epoch, first = divmod(progress.step, per_epoch)
        for batch in batches(run.data, run.settings, epoch, first, fabric.global_rank, fabric.world_size):
            rate = run.settings.rate(progress.step, total, epoch)
            figures = _advance(fabric, step_module, optimizer, batch, rate, run.settings.clip)
            progress.step += 1
            if average is not None:
                average.update(model, progress.step)
            keeper.after_step(figures, rate)
            if watch is not None:
                watch(progress.step, total, figures | keeper.latest)
        keeper.after_epoch(epoch + 1)
    return keeper.finish()


def _fabric(device: str) -> Fabric:
    """One process, or, under `torchrun`, as many as it started."""
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    kind, _, number = device.partition(":")
    devices: Any = [int(number)] if number else (processes if processes > 1 else 1)
    fabric = Fabric(accelerator=kind, devices=devices, strategy="ddp" if processes > 1 else "auto")
    fabric.launch()
    return fabric


def _optimizer(model: nn.Module, settings: Settings) -> torch.optim.Optimizer:
    """Weight decay falls on matrices and kernels, not on biases and normalisation."""
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    groups = [
        {"params": [weight for weight in trained if weight.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [weight for weight in trained if weight.ndim <= 1], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if settings.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=settings.lr, momentum=settings.momentum, nesterov=settings.momentum > 0)
    return torch.optim.Adam(groups, lr=settings.lr)


def _advance(
    fabric: Fabric, step: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch, rate: float, clip: float
) -> dict[str, float]:
    """One forward, backward and update."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    batch.images, batch.labels = batch.images.to(fabric.device), batch.labels.to(fabric.device)
    loss, parts = step(batch)
    optimizer.zero_grad(set_to_none=True)
    fabric.backward(loss)
    if clip:
        fabric.clip_gradients(step, optimizer, max_norm=clip)
    optimizer.step()
    return {"loss": float(loss.detach())} | {name: float(value.detach()) for name, value in parts.items()}


class _Keeper:
    """Keeps the curve, the checkpoints and the best weights; only the first process writes."""

    def __init__(
        self,
        run: Run,
        fabric: Fabric,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        average: Average | None,
        progress: Progress,
    ) -> None:
        self.run, self.fabric, self.model, self.optimizer = run, fabric, model, optimizer
        self.average, self.progress = average, progress
        self.latest: dict[str, float] = {}
        self.window: list[dict[str, float]] = []
        self.started = self.saved = time.monotonic()
        self.before = progress.seconds
        self.best_state: dict[str, Tensor] | None = None
        if run.folder and fabric.is_global_zero:
            write_json(run.folder / "run.json", run.configuration())

    def after_step(self, figures: dict[str, float], rate: float) -> None:
        """Note the loss; stop at once when it is no number, leaving the last good checkpoint."""
        if figures["loss"] != figures["loss"] or abs(figures["loss"]) == float("inf"):
            raise DivergedError(
                f"The loss is {figures['loss']} at step {self.progress.step}. "
                "The last good checkpoint is kept; start again with a smaller lr, or with clip=1."
            )
        self.window.append(figures)
        if self.progress.step % 50 == 0:
            means = {name: sum(row[name] for row in self.window) / len(self.window) for name in figures}
            self._note({"step": self.progress.step, "lr": rate, **means})
            self.window = []
        if time.monotonic() - self.saved > self.run.every:
            self.save()

    def after_epoch(self, epoch: int) -> None:
        """Measure on held-out images, keep the best weights, write a checkpoint."""
        with self._averaged():
            data = self.run.validation
            device = self.fabric.device
            figures = measured(self.run.objective, self.model, data.images.to(device), data.labels.to(device))
            first = next(iter(figures.values()))
            sign = 1.0 if self.run.objective.better == "higher" else -1.0
            if self.progress.best is None or sign * first > sign * self.progress.best:
                self.progress.best, self.progress.best_step = first, self.progress.step
                self.best_state = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
                if self.run.folder and self.fabric.is_global_zero:
                    write_tensors(self.run.folder / "best.safetensors", self.best_state)
        self.latest = figures
        self._note({"step": self.progress.step, "epoch": epoch, **{f"held_out_{k}": v for k, v in figures.items()}})
        self.save()

    def finish(self) -> dict[str, float]:
        """Leave the best weights in the model and return their figures."""
        if self.best_state is None and self.run.folder:
            from alu.storage import read_tensors

            self.best_state = read_tensors(self.run.folder / "best.safetensors")
        if self.best_state is not None:
            self.model.load_state_dict(self.best_state)
        self.model.eval()
        data, device = self.run.validation, self.fabric.device
        return measured(self.run.objective, self.model, data.images.to(device), data.labels.to(device))

    def save(self) -> None:
        """Write the checkpoint."""
        self.saved = time.monotonic()
        self.progress.seconds = self.before + self.saved - self.started
        if self.run.folder and self.fabric.is_global_zero:
            path = self.run.folder / "checkpoint.safetensors"
            save_checkpoint(path, self.model, self.optimizer, self.average, self.progress, self.run.configuration())

    def _note(self, row: dict[str, float]) -> None:
        if self.run.folder and self.fabric.is_global_zero:
            path = self.run.folder / "curve.jsonl"
            with explained(path), path.open("a") as file:
                file.write(json.dumps(row) + "\n")

    def _averaged(self) -> _Swap:
        return _Swap(self.model, self.average)


class _Swap:
    """Puts the averaged weights into the model for the length of a block."""

    def __init__(self, model: nn.Module, average: Average | None) -> None:
        self.model, self.average = model, average

    def __enter__(self) -> None:
        if self.average is not None:
            self.live = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}
            self.model.load_state_dict(self.average.state)

    def __exit__(self, *_: object) -> None:
        if self.average is not None:
            self.model.load_state_dict(self.live)


def _cut_curve(path: Path, step: int) -> None:
    """Drop what the curve says of steps after the checkpoint: they will be done again."""
    if path.exists():
        rows = [line for line in path.read_text().splitlines() if line.strip() and json.loads(line)["step"] <= step]
        path.write_text("".join(row + "\n" for row in rows))
