"""Settings of one training run, and the learning rate they give each step."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args, get_type_hints

from alu.errors import UsageError, nearest


@dataclass(frozen=True)
class Settings:
    """How to train; two runs with equal settings, data and seed end with equal weights (one process, one CPU)."""

    epochs: int = 10
    batch_size: int = 128
    optimizer: Literal["sgd", "adam"] = "sgd"
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 0.0
    schedule: Literal["one-cycle", "cosine", "steps", "constant"] = "one-cycle"
    warmup: float = 0.2
    """Share of all steps in which a one-cycle rate rises."""
    drops: tuple[tuple[int, float], ...] = ()
    """For "steps": (epoch, share of the initial rate from there on)."""
    average: float = 0.0
    """Decay of the running average of the weights; 0 keeps none."""
    augment: Literal["none", "flip", "crop-flip", "crop-flip-cutout"] = "none"
    clip: float = 0.0
    """Largest gradient norm; 0 leaves gradients alone."""
    seed: int = 0

    def __post_init__(self) -> None:
        _check_kinds(self)
        for name in ("epochs", "batch_size", "lr"):
            if not getattr(self, name) > 0:
                raise UsageError(f"Training needs {name} above 0; it is {getattr(self, name)}.")
        for name in ("weight_decay", "clip"):
            if getattr(self, name) < 0:
                raise UsageError(f"Training needs {name} of 0 or more; it is {getattr(self, name)}.")
        if not 0.0 <= self.momentum < 1.0:
            raise UsageError(f"momentum is a share in [0, 1), such as 0.9; it is {self.momentum}.")
        if any(epoch < 0 or not 0 < share <= 1 for epoch, share in self.drops):
            raise UsageError(f"drops are pairs of an epoch and a share between 0 and 1; they are {list(self.drops)}.")
        if not 0.0 <= self.average < 1.0:
            raise UsageError(f"average is a decay in [0, 1), such as 0.999; it is {self.average}.")
        if not 0.0 < self.warmup < 1.0:
            raise UsageError(f"warmup is a share of all steps between 0 and 1; it is {self.warmup}.")

    def as_json(self) -> dict[str, Any]:
        """Plain values for a card or a checkpoint."""
        return {**asdict(self), "drops": [list(drop) for drop in self.drops]}

    def rate(self, step: int, steps: int, epoch: int) -> float:
        """The learning rate of this step out of `steps`."""
        done = step / max(1, steps)
        if self.schedule == "one-cycle":
            if done < self.warmup:
                return self.lr * max(done / self.warmup, 1e-3)
            return self.lr * max((1.0 - done) / (1.0 - self.warmup), 1e-3)
        if self.schedule == "cosine":
            return self.lr * max(0.5 * (1.0 + math.cos(math.pi * done)), 1e-3)
        if self.schedule == "steps":
            share = 1.0
            for start, factor in self.drops:
                share = factor if epoch >= start else share
            return self.lr * share
        return self.lr


def _check_kinds(settings: Settings) -> None:
    """Refuse a value of the wrong kind, such as a word where a number belongs: values come from the command line."""
    hints = get_type_hints(Settings)
    for field in fields(Settings):
        value, hint = getattr(settings, field.name), hints[field.name]
        choices = [choice for choice in get_args(hint) if isinstance(choice, str)]
        if choices and value not in choices:
            raise UsageError(f"There is no {field.name} {value!r}. {nearest(str(value), choices)}")
        if hint in (int, float):
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not (whole or (hint is float and isinstance(value, float))) or not math.isfinite(value):
                kind = "a whole number" if hint is int else "a number"
                raise UsageError(f"The setting {field.name} is {kind}; {value!r} is none.")
    try:
        drops = tuple(sorted((int(epoch), float(share)) for epoch, share in settings.drops))
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"drops are pairs of an epoch and a share of the rate, such as [[80, 0.2]]; {settings.drops!r} are none."
        ) from error
    object.__setattr__(settings, "drops", drops)  # JSON knows lists only
