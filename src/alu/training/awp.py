"""Adversarial weight perturbation (Wu et al. 2020): an adversarial objective at perturbed weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from alu.errors import UsageError
from alu.training.adversarial import AdversarialObjective
from alu.training.batches import Batch
from alu.training.objectives import Objective


class AWP(Objective):
    """The gradient of `inner` at w + v, where v = gamma ‖w‖ g / ‖g‖ for each kernel or matrix w with gradient g.

    The weights themselves are never changed: the loss is computed with w + v in their place, v a constant, so its
    derivative by w is the gradient at w + v and there is nothing to restore. The price is one more pass over the
    adversarial images.
    """

    def __init__(self, inner: AdversarialObjective, gamma: float = 5e-3) -> None:
        if not isinstance(inner, AdversarialObjective):
            raise UsageError(f"AWP wraps an adversarial objective, such as Trades(); it was given {inner!r}.")
        if not gamma > 0:
            raise UsageError(f"AWP needs gamma above 0, the size of v relative to the weights; it is {gamma:g}.")
        self.inner, self.gamma = inner, gamma
        self.better, self.measured_on = inner.better, inner.measured_on

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The inner objective's loss at the perturbed weights, on images found at the unperturbed ones."""
        found = self.inner.found(model, batch)
        weights = {
            name: weight for name, weight in model.named_parameters() if weight.requires_grad and weight.ndim > 1
        }
        there, _ = self.inner.loss_on(model, batch, found)
        gradients = torch.autograd.grad(there, list(weights.values()))
        moved = {
            name: weight + self.ascent(weight.detach(), _of_all(gradient))
            for (name, weight), gradient in zip(weights.items(), gradients, strict=True)
        }
        return self.inner.loss_on(_At(model, moved), batch, found)

    def ascent(self, weight: Tensor, gradient: Tensor) -> Tensor:
        """v for one layer: along the gradient, `gamma` times as long as the weights."""
        length: Tensor = self.gamma * weight.norm() / gradient.norm().clamp_min(1e-20)
        return length * gradient

    def measure(self, model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """The inner objective's figures, at the unperturbed weights."""
        return self.inner.measure(model, images, labels)

    def concern(self, figures: dict[str, float]) -> str:
        """What the inner objective has to say."""
        return self.inner.concern(figures)

    def as_json(self) -> dict[str, Any]:
        """Plain values, with those of the inner objective."""
        return {"name": "AWP", "gamma": self.gamma, "inner": self.inner.as_json()}


class _At(nn.Module):
    """A network computed with other weights; its statistics are its own."""

    def __init__(self, model: nn.Module, weights: dict[str, Tensor]) -> None:
        super().__init__()
        # In a list, so that the network is not registered twice and keeps its parameters' names.
        self.model, self.weights = [model], weights

    def forward(self, images: Tensor) -> Tensor:
        """Logits at the other weights."""
        logits: Tensor = functional_call(self.model[0], self.weights, (images,))
        return logits


def _of_all(gradient: Tensor) -> Tensor:
    """The sum over all processes, so that each of them perturbs the weights alike; its length does not matter."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.all_reduce(gradient)
    return gradient
