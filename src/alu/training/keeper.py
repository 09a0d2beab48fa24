"""What a run leaves behind while it goes on: the curve, the checkpoints and the best weights."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from alu.check import warn
from alu.errors import DivergedError
from alu.storage import explained, read_tensors, replacing, write_json, write_tensors
from alu.training.batches import steps_per_epoch
from alu.training.checkpoint import Average, Progress, save_checkpoint
from alu.training.curve import draw_curve
from alu.training.interrupts import Interruption
from alu.training.objectives import measured

if TYPE_CHECKING:
    from alu.training.loop import Run

WINDOW = 50
"""Steps whose mean is one point of the curve."""


class Keeper:
    """Keeps the curve, the checkpoints and the best weights; only the first process writes."""

    def __init__(
        self,
        run: Run,
        fabric: Fabric,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        average: Average | None,
        progress: Progress,
        interruption: Interruption,
    ) -> None:
        self.run, self.fabric, self.model, self.optimizer = run, fabric, model, optimizer
        self.average, self.progress, self.interruption = average, progress, interruption
        self.latest: dict[str, float] = {}
        self.started = self.saved = time.monotonic()
        self.before = progress.seconds
        self.best_state: dict[str, Tensor] | None = None
        self.per_epoch = steps_per_epoch(run.data, run.settings)
        if run.folder is not None and not (run.folder / "best.safetensors").exists():
            progress.best = None  # a parked run may come without its best weights: the next epoch's are the best known
        self.folder = run.folder if fabric.is_global_zero else None
        if self.folder:
            for left in self.folder.glob(".*.safetensors.*"):  # by a process that was killed while it wrote
                left.unlink(missing_ok=True)
            write_json(self.folder / "run.json", run.configuration())

    def after_step(self, figures: dict[str, float], rate: float) -> None:
        """Note the loss; stop at once when it is NaN or infinite, leaving the last good checkpoint, and after a
        checkpoint when a signal has asked for it."""
        loss, stops = figures["loss"], self.interruption.requested
        if self.fabric.world_size > 1:  # no process stops while the others wait for it
            mine = torch.tensor([loss, float(stops)])
            loss, stopping = self.fabric.all_reduce(mine, reduce_op="mean").tolist()  # type: ignore[union-attr]
            stops = stopping > 0
        if not math.isfinite(loss):
            raise self._diverged(f"The loss is {loss}")
        self.progress.window.append(figures)
        if self.progress.step % WINDOW == 0:
            self._note_window(rate)
        if stops:
            self.progress.unmeasured = self.progress.step % self.per_epoch == 0
            self.save()
            raise KeyboardInterrupt
        # At the end of an epoch the checkpoint waits for the measurement, which follows at once.
        if time.monotonic() - self.saved > self.run.every and self.progress.step % self.per_epoch:
            self.save()

    def after_epoch(self, epoch: int, rate: float) -> None:
        """Measure on held-out images, keep the best weights, write a checkpoint and draw the curve."""
        self._refuse_broken_weights()
        self._note_window(rate)
        with _averaged(self.model, self.average):
            figures = measured(self.run.objective, self.model, self.run.validation, self.fabric.device)
            first = next(iter(figures.values()))
            sign = 1.0 if self.run.objective.better == "higher" else -1.0
            # Ties: the later one. On few images a lucky figure comes early, and the weights go on learning.
            known = self.progress.best
            if known is None or not math.isfinite(known) or sign * first >= sign * known:
                self.progress.best, self.progress.best_step = first, self.progress.step
                self.best_state = _copied(self.model)
                if self.folder:
                    write_tensors(self.folder / "best.safetensors", self.best_state)
        self.latest = figures
        if self.folder and (concern := self.run.objective.concern(figures)):
            warn(concern)
        self.progress.unmeasured = False
        self._note({"step": self.progress.step, "epoch": epoch, **{f"held_out_{k}": v for k, v in figures.items()}})
        self.save()
        if self.folder:
            draw_curve(self.folder / "curve.jsonl", self.folder / "curve.svg")
        if self.interruption.requested and self.fabric.world_size == 1:  # several agree on it after their next step
            raise KeyboardInterrupt

    def finish(self) -> dict[str, float]:
        """Leave the best weights in the model and return their figures."""
        if self.best_state is None and self.run.folder:
            self.best_state = read_tensors(self.run.folder / "best.safetensors")
        if self.best_state is not None:
            self.model.load_state_dict(self.best_state)
        self.model.eval()
        return measured(self.run.objective, self.model, self.run.validation, self.fabric.device)

    def save(self) -> None:
        """Write the checkpoint."""
        self._refuse_broken_weights()
        self.saved = time.monotonic()
        self.progress.seconds = self.before + self.saved - self.started
        if self.folder:
            path = self.folder / "checkpoint.safetensors"
            save_checkpoint(path, self.model, self.optimizer, self.average, self.progress, self.run.configuration())

    def _refuse_broken_weights(self) -> None:
        """A finite loss can have an infinite gradient: the weights are broken one step before the loss shows it."""
        if not all(bool(torch.isfinite(weight).all()) for weight in self.model.parameters()):
            raise self._diverged("Some weights are NaN or infinite")

    def _diverged(self, what: str) -> DivergedError:
        kept = "The last good checkpoint is kept; start again" if self.progress.seconds else "Start again"
        return DivergedError(
            f"{what} at step {self.progress.step}. {kept} in another folder with a smaller lr, or with clip=1 (--set)."
        )

    def _note_window(self, rate: float) -> None:
        """One point of the curve: means over the steps since the last one, and over all processes."""
        rows = self.progress.window
        if not rows:
            return
        means = {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}
        self.progress.window = []
        if self.fabric.world_size > 1:
            together = self.fabric.all_reduce(torch.tensor(list(means.values())), reduce_op="mean")
            means = dict(zip(means, together.tolist(), strict=True))  # type: ignore[union-attr]
        self._note({"step": self.progress.step, "lr": rate, **means})

    def _note(self, row: dict[str, float]) -> None:
        if self.folder:
            path = self.folder / "curve.jsonl"
            with explained(path), path.open("a") as file:
                file.write(json.dumps(row) + "\n")


@contextmanager
def _averaged(model: nn.Module, average: Average | None) -> Iterator[None]:
    """Put the averaged weights into the model for the length of a block."""
    if average is None:
        yield
        return
    live = _copied(model)
    model.load_state_dict(average.state)
    try:
        yield
    finally:
        model.load_state_dict(live)


def _copied(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def cut_curve(path: Path, step: int) -> None:
    """Drop what the curve says of steps after the checkpoint, which will be done again, and a row cut short."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text().splitlines():
        with suppress(json.JSONDecodeError):
            if json.loads(line)["step"] <= step:
                kept.append(line + "\n")
    with replacing(path) as temporary:
        temporary.write_text("".join(kept))
