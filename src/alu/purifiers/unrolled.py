"""The exact gradient of N latent steps, in the memory of one step.

Only the codes z_0..z_N are kept. Walking back from λ = (∂D/∂z_N)ᵀ g, each step z_{k+1} = z_k - lr ∇_z O(z_k, x) gives
g_x -= lr H_xz λ and λ -= lr H_zz λ, both with the old λ; what is left at the end belongs to z_0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from alu.purifiers.solvers import GradientDescent, LatentProblem, Schedule, rate_at, solve


@dataclass(frozen=True)
class Descent:
    """The gradient descent that is differentiated, and the solver that is deployed."""

    problem: LatentProblem
    lr: float
    schedule: Schedule
    steps: int
    deployed: Callable[[Tensor, Tensor], Tensor] | None = None
    """(images, start) -> final code of the deployed solver; None if the descent itself is deployed."""


class Unrolled(torch.autograd.Function):
    """D(z_N), or what `read` returns at z_N, as a function of the images and of the start code."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, start: Tensor, descent: Descent) -> Tensor:
        """The deployed output; if the descent has other codes, the backward pass computes them."""
        ctx.descent = descent
        ctx.codes = []
        if descent.deployed is None:
            final = _walk(descent, images, start, ctx.codes)
        else:
            final = descent.deployed(images, start)
        ctx.save_for_backward(images, start)
        return descent.problem.output(final)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        """Gradients for the images and for the start code."""
        images, start = ctx.saved_tensors
        descent: Descent = ctx.descent
        codes: list[Tensor] = ctx.codes
        if not codes:
            _walk(descent, images, start, codes)
        final = codes[-1].requires_grad_(True)
        with torch.enable_grad():
            output = descent.problem.output(final)
        (carried,) = torch.autograd.grad(output, final, grads[0])
        total = torch.zeros_like(images)
        for step in range(descent.steps - 1, -1, -1):
            rate = rate_at(descent.lr, descent.schedule, step, descent.steps)
            on_images, on_code = second_products(descent.problem, codes[step], images, carried)
            total.add_(on_images, alpha=-rate)
            carried = carried.add(on_code, alpha=-rate)
        return total, carried, None


def _walk(descent: Descent, images: Tensor, start: Tensor, codes: list[Tensor]) -> Tensor:
    solver = GradientDescent(descent.lr, descent.schedule, descent.steps)

    def keep(code: Tensor) -> None:
        codes.append(code.detach().clone())

    return solve(descent.problem, images.detach(), start.detach(), solver, descent.steps, visit=keep)


def second_products(problem: LatentProblem, code: Tensor, images: Tensor, vector: Tensor) -> tuple[Tensor, Tensor]:
    """(H_xz v, H_zz v) of the latent objective at this code."""
    code = code.detach().requires_grad_(True)
    images = images.detach().requires_grad_(True)
    with torch.enable_grad():
        value = problem.value(problem.decode(code), code, images).sum()
        (gradient,) = torch.autograd.grad(value, code, create_graph=True)
        along = (gradient * vector.detach()).sum()
    on_images, on_code = torch.autograd.grad(along, (images, code))
    return on_images, on_code
