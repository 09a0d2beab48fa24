"""The training loop: one readable pass over epochs and steps, on any device, resumable to the bit."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import nn

from alu.check import find_device
from alu.data.dataset import Dataset
from alu.errors import UsageError
from alu.training.batches import Batch, batches, steps_per_epoch
from alu.training.checkpoint import Average, Progress, load_checkpoint
from alu.training.interrupts import deferred
from alu.training.keeper import Keeper, cut_curve
from alu.training.objectives import Objective, Step
from alu.training.settings import Settings

Watcher = Callable[[int, int, dict[str, float]], None]
"""Called after every step with steps done, steps in all, and the latest figures."""
LOOKED_AT = 1000
"""About so many pictures are hashed, evenly spaced: reading a large folder once more would take minutes."""


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
    """Seconds between checkpoints; one is also saved after each epoch."""
    start: str = ""
    """Where the first weights come from, if not from the recipe: a name and a hash."""

    @cached_property
    def digest(self) -> str:
        """A short hash of classes, labels and some of the pictures: two folders of one name are not one data set."""
        found = hashlib.sha256(json.dumps(self.data.classes).encode())
        found.update(self.data.labels.contiguous().numpy().tobytes())
        for place in range(0, len(self.data), max(1, len(self.data) // LOOKED_AT)):
            found.update(self.data.pixels[place].contiguous().numpy().tobytes())
        return found.hexdigest()[:12]

    def configuration(self) -> dict[str, Any]:
        """What must be equal for a checkpoint to be resumed."""
        return {
            "architecture": getattr(self.model, "architecture", type(self.model).__name__),
            "objective": self.objective.as_json(),
            "settings": self.settings.as_json(),
            "data": [self.data.name, self.data.split, len(self.data), list(self.data.shape), self.digest],
            **({"start": self.start} if self.start else {}),
        }


def train(run: Run, watch: Watcher | None = None) -> dict[str, float]:
    """Train `run.model` in place to its best weights and return their held-out figures.

    Ctrl-C and SIGTERM end it with KeyboardInterrupt after the step that is being done, and after a checkpoint.
    """
    _refuse_uneven(min(run.settings.batch_size, len(run.data)))
    with _launched(run.device) as fabric:
        return _trained(run, fabric, watch)


def _trained(run: Run, fabric: Fabric, watch: Watcher | None) -> dict[str, float]:
    run.objective.prepare(fabric.device)
    # On its device before anything is made of its weights: averages and optimiser states stay where they are made.
    model = run.model.to(fabric.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = _optimizer(model, run.settings)
    average = Average(model, run.settings.average) if run.settings.average else None
    progress = Progress()
    checkpoint = run.folder / "checkpoint.safetensors" if run.folder else None
    if checkpoint is not None and checkpoint.exists():
        progress = load_checkpoint(checkpoint, model, optimizer, average, run.configuration())
        if fabric.is_global_zero:
            cut_curve(checkpoint.parent / "curve.jsonl", progress.step)
    step_module, optimizer = fabric.setup(Step(model, run.objective), optimizer)
    per_epoch = steps_per_epoch(run.data, run.settings)
    total = per_epoch * run.settings.epochs
    model.train()
    with deferred("Saving a checkpoint.") as interruption:
        keeper = Keeper(run, fabric, model, optimizer, average, progress, interruption)
        if progress.unmeasured:  # it was interrupted between an epoch's last step and its measurement
            ended = progress.step // per_epoch
            keeper.after_epoch(ended, run.settings.rate(progress.step - 1, total, ended - 1))
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
            keeper.after_epoch(epoch + 1, rate)
    return keeper.finish()


@contextmanager
def _launched(device: str) -> Iterator[Fabric]:
    """One process, or, under `torchrun`, as many as it started; they part when the block ends, since a process that
    leaves while another still listens to it may end with an error."""
    find_device(device)
    joined = torch.distributed.is_initialized()
    processes = _processes()
    here = int(os.environ.get("LOCAL_WORLD_SIZE", str(processes)))
    kind, _, number = device.partition(":")
    devices: Any = [int(number)] if number else here
    strategy = "ddp" if processes > 1 else "auto"
    fabric = Fabric(accelerator=kind, devices=devices, num_nodes=processes // here, strategy=strategy)
    fabric.launch()
    try:
        yield fabric
        fabric.barrier()
    finally:
        if torch.distributed.is_initialized() and not joined:
            torch.distributed.destroy_process_group()


def _processes() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def _refuse_uneven(batch_size: int) -> None:
    """Processes average their gradients, which is the gradient of the whole batch only if their shares are equal."""
    processes = _processes()
    if batch_size % processes:
        raise UsageError(
            f"A batch of {batch_size} images cannot be shared equally among {processes} processes. "
            f"Use --set batch_size={max(1, batch_size // processes) * processes}."
        )


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
