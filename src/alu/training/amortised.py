"""The objective of learned steps: the squared error that is left after the last one."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from alu.models.amortised import Amortised
from alu.training.batches import Batch
from alu.training.objectives import Objective


class Amortising(Objective):
    """||D(z_N) - x||² after all corrections, plus `earlier` times the mean of it before the last ones.

    Nothing but the encoder and the corrections of an `alu.models.amortised` is trained: its VAE is frozen. The earlier
    errors keep its first code close to the image, which a reconstruction and fewer steps are made from.
    """

    better = "lower"

    def __init__(self, earlier: float = 0.1) -> None:
        self.earlier = earlier

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Mean squared error per image, summed over its values."""
        *before, last = errors(model, batch.images)
        pixels = batch.images[0].numel()
        loss = pixels * (last.mean() + (self.earlier * torch.stack(before).mean() if before else 0.0))
        return loss, {"rmse": last.mean().sqrt()}

    def measure(self, model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Squared error per value after all corrections, which decides, and after fewer."""
        *before, last = errors(model, images)
        return {"squared_error": last} | {f"squared_error_{place}": error for place, error in enumerate(before)}


def errors(model: nn.Module, images: Tensor) -> list[Tensor]:
    """The squared error per value [N] of each code's image, those of the fitted encoder's first."""
    assert isinstance(model, Amortised)
    codes, outputs = model.walk(images, len(model.corrections))
    return [(output - images).square().flatten(1).mean(1) for output in (*outputs, model.decode(codes[-1]))]
