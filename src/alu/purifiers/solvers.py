"""The latent problem min_z objective(D(z), x) and the solvers that step towards its minimum."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

Objective = Literal["sse", "mse", "norm"]
SolverName = Literal["gd", "adam", "learned"]
Schedule = Literal["constant", "cosine"]
Product = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class LatentProblem:
    """Per-image objective: the reconstruction error of D(z), plus `prior` * ||z||².

    "sse" is ||D(z) - x||², "mse" the same per value, "norm" the un-squared ||D(z) - x||.
    """

    decode: Callable[[Tensor], Tensor]
    objective: Objective = "sse"
    prior: float = 0.0
    read: Callable[[Tensor], Tensor] | None = None
    """Code -> output of the purifier; None where it is D(z) itself."""

    def output(self, code: Tensor) -> Tensor:
        """The purifier's output at this code."""
        return (self.read or self.decode)(code)

    def value(self, output: Tensor, code: Tensor, images: Tensor) -> Tensor:
        """The objective of each image [N], given output = D(code)."""
        squared = (output - images).square().flatten(1)
        if self.objective == "sse":
            value = squared.sum(1)
        elif self.objective == "mse":
            value = squared.mean(1)
        else:
            # The small constant keeps the derivative finite where the reconstruction is perfect.
            value = (squared.sum(1) + 1e-12).sqrt()
        return value + self.prior * code.square().flatten(1).sum(1) if self.prior else value

    def gradient(self, code: Tensor, images: Tensor) -> tuple[Tensor, Tensor]:
        """The objective's gradient at a code, and D(code), without a graph."""
        code.requires_grad_(True)
        with torch.enable_grad():
            output = self.decode(code)
            total = self.value(output, code, images).sum()
        (gradient,) = torch.autograd.grad(total, code)
        code.requires_grad_(False)
        return gradient, output.detach()

    def curvature(self, output: Tensor, images: Tensor) -> Tensor:
        """The factor [N] by which JᵀJ is the Gauss-Newton part of the objective's Hessian, without the prior."""
        count, values = len(images), images[0].numel()
        if self.objective == "norm":
            distance: Tensor = (output - images).flatten(1).norm(dim=1)
            return distance.clamp_min(1e-6).reciprocal()
        factor = 2.0 if self.objective == "sse" else 2.0 / values
        return torch.full((count,), factor, dtype=images.dtype, device=images.device)


class Solver(Protocol):
    """Updates a code in place from its gradient."""

    state: list[Tensor]
    """What it remembers from step to step, each like the code."""

    def factors(self, step: int) -> tuple[float, ...]:
        """The numbers that make step number `step`, counted from 0, differ from the others."""
        ...

    def update(self, code: Tensor, gradient: Tensor, *factors: float | Tensor) -> None:
        """Take the step that has these factors; they may be tensors, so that one exported graph makes every step."""
        ...


def rate_at(lr: float, schedule: Schedule, step: int, steps: int) -> float:
    """The learning rate of one step: constant, or a half cosine that falls towards 0."""
    return lr if schedule == "constant" else lr * 0.5 * (1.0 + math.cos(math.pi * step / max(1, steps)))


class GradientDescent:
    """z -= lr * gradient, in place."""

    def __init__(self, lr: float, schedule: Schedule, steps: int) -> None:
        self.lr, self.schedule, self.steps = lr, schedule, steps
        self.state: list[Tensor] = []

    def factors(self, step: int) -> tuple[float]:
        """The rate."""
        return (rate_at(self.lr, self.schedule, step, self.steps),)

    def update(self, code: Tensor, gradient: Tensor, *factors: float | Tensor) -> None:
        """One plain step."""
        (rate,) = factors
        code.sub_(gradient * rate)


class Adam:
    """Adam on the code; its state, two averages, is allocated once and updated in place."""

    def __init__(self, lr: float, schedule: Schedule, steps: int, like: Tensor, betas: tuple[float, float]) -> None:
        self.lr, self.schedule, self.steps = lr, schedule, steps
        self.betas = betas
        self.state = [torch.zeros_like(like) for _ in range(2)]

    def factors(self, step: int) -> tuple[float, float]:
        """The rate and the divisor of the root, both with their bias correction."""
        first, second = self.betas
        rate = rate_at(self.lr, self.schedule, step, self.steps) / (1.0 - first ** (step + 1))
        return rate, math.sqrt(1.0 - second ** (step + 1))

    def update(self, code: Tensor, gradient: Tensor, *factors: float | Tensor) -> None:
        """One step."""
        rate, divisor = factors
        mean, square = self.state
        first, second = self.betas
        mean.lerp_(gradient, 1.0 - first)
        square.mul_(second).addcmul_(gradient, gradient, value=1.0 - second)
        root = square.sqrt().div_(divisor).add_(1e-8)
        code.addcdiv_(mean * -rate, root)


def solve(
    problem: LatentProblem, images: Tensor, code: Tensor, solver: Solver, steps: int,
    visit: Callable[[Tensor], None] | None = None, first_output: list[Tensor] | None = None,
) -> Tensor:  # fmt: skip
    """The code after `steps` updates, without a graph. `visit` gets each code before its update. The decoder's
    output at the start, which the first step computes anyway, is appended to `first_output`."""
    code = code.detach().clone()
    for step in range(steps):
        if visit is not None:
            visit(code)
        gradient, output = problem.gradient(code, images)
        if step == 0 and first_output is not None:
            first_output.append(output)
        solver.update(code, gradient, *solver.factors(step))
    if visit is not None:
        visit(code)
    return code


def jacobian_products(decode: Callable[[Tensor], Tensor], code: Tensor) -> tuple[Product, Product]:
    """(v -> J v, w -> Jᵀ w) for the decoder's Jacobian J at this code; the graph is built once."""
    at = code.detach().requires_grad_(True)
    with torch.enable_grad():
        output = decode(at)
        dummy = torch.zeros_like(output).requires_grad_(True)
        (pulled,) = torch.autograd.grad(output, at, dummy, create_graph=True)

    def push(vector: Tensor) -> Tensor:
        # J v as the derivative, with respect to w, of <Jᵀ w, v>.
        return torch.autograd.grad(pulled, dummy, vector, retain_graph=True)[0]

    def pull(weight: Tensor) -> Tensor:
        return torch.autograd.grad(output, at, weight, retain_graph=True)[0]

    return push, pull


def stable_rate(problem: LatentProblem, code: Tensor) -> float:
    """A rate at which gradient descent on the squared error does not diverge: half of 1/L, where L is the largest
    curvature of ||D(z) - x||², by power iteration at this code."""
    push, pull = jacobian_products(problem.decode, code)
    vector = torch.ones_like(code) / math.sqrt(code[0].numel())
    curvature = torch.ones(())
    for _ in range(8):
        vector = pull(push(vector))
        curvature = vector.flatten(1).norm(dim=1).amax()
        vector = vector / vector.flatten(1).norm(dim=1).clamp_min(1e-30).view(-1, *[1] * (vector.ndim - 1))
    return 0.5 / (2.0 * float(curvature))
