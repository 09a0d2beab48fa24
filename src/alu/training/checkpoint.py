"""Everything a run needs to go on exactly where it stopped, as one safetensors file and nothing that can run code."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from alu.errors import StorageError
from alu.storage import write_tensors


@dataclass
class Progress:
    """Where a run stands: steps done, the best figure so far with the step it was measured at, the figures of the steps
    since the curve's last point, and whether the epoch that has just ended must still be measured."""

    step: int = 0
    best: float | None = None
    best_step: int = 0
    seconds: float = 0.0
    window: list[dict[str, float]] = field(default_factory=list)
    unmeasured: bool = False


class Average:
    """A running average of all floating-point weights and statistics; early on it follows quickly."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.state = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Move towards the current weights."""
        decay = min(self.decay, (1 + step) / (10 + step))
        for name, tensor in model.state_dict().items():
            kept = self.state[name]
            if kept.is_floating_point():
                kept.lerp_(tensor, 1.0 - decay)
            else:
                kept.copy_(tensor)


def save_checkpoint(
    path: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: Average | None,
    progress: Progress,
    configuration: dict[str, Any],
) -> None:
    """Write a checkpoint atomically."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    if average is not None:
        tensors |= {f"average.{name}": tensor for name, tensor in average.state.items()}
    for index, slots in optimizer.state_dict()["state"].items():
        for slot, value in slots.items():
            if value is not None:
                tensors[f"optimizer.{index}.{slot}"] = torch.as_tensor(value)
    metadata = {"progress": json.dumps(vars(progress)), "configuration": json.dumps(configuration, sort_keys=True)}
    write_tensors(path, {name: tensor.clone() for name, tensor in tensors.items()}, metadata)


def progress_of(path: Path) -> Progress:
    """Where the run of a checkpoint stands."""
    return Progress(**json.loads(_read(path)[1]["progress"]))


def total_steps(facts: dict[str, Any]) -> int:
    """How many steps a run takes, from its run.json."""
    settings = facts["settings"]
    return int(settings["epochs"]) * max(1, int(facts["data"][2]) // int(settings["batch_size"]))


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            return {name: file.get_tensor(name) for name in file.keys()}, metadata  # noqa: SIM118 - not a dict
    except (SafetensorError, OSError) as error:
        raise StorageError(f"{path} is not a whole checkpoint ({error}). Delete it to start afresh.") from error


def load_checkpoint(
    path: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: Average | None,
    configuration: dict[str, Any],
) -> Progress:
    """Put a run back where it stood; refused when it was configured otherwise."""
    differing = differences(path, configuration)
    if differing:
        raise StorageError(
            f"{path} belongs to another run: {', '.join(differing)}. "
            f"Go on with the old settings, delete {path.parent} to start again, or choose another folder."
        )
    tensors, metadata = _read(path)
    model.load_state_dict(_part(tensors, "model."))
    if average is not None:
        for name, tensor in _part(tensors, "average.").items():
            average.state[name].copy_(tensor)
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in _part(tensors, "optimizer.").items():
        index, slot = name.split(".", 1)
        state.setdefault(int(index), {})[slot] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    return Progress(**json.loads(metadata["progress"]))


def differences(path: Path, configuration: dict[str, Any]) -> list[str]:
    """What a checkpoint's run was configured with otherwise, each as "name was A and is now B"."""
    before = json.loads(_read(path)[1].get("configuration", "{}"))
    now = json.loads(json.dumps(configuration))
    if len(before.get("data", [])) == len(now.get("data", [])) - 1:  # written before data had a digest
        now["data"] = now["data"][:-1]
    return _differences(before, now)


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name[len(prefix) :]: tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What is configured otherwise, each as "name was A and is now B"."""
    found = []
    for key in sorted(before.keys() | now.keys()):
        old, new = before.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            found += _differences(old, new)
        elif old != new:
            found.append(f"{key} was {json.dumps(old)} and is now {json.dumps(new)}")
    return found
