"""The gradient of a converged latent code, by the implicit function theorem: -H_xz H_zz⁻¹ (∂D/∂z)ᵀ g.

H_zz⁻¹ is applied by conjugate gradients on Hessian-vector products, image by image. Where H_zz turns out not to be
positive definite, the image is solved again with its Gauss-Newton part (2 JᵀJ for the squared error), a little damped.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from alu.purifiers.solvers import LatentProblem, Product, jacobian_products
from alu.purifiers.unrolled import second_products


class Implicit(torch.autograd.Function):
    """D(z*) as a function of the images, z* the minimiser that the steps reached."""

    @staticmethod
    def forward(
        ctx: Any, images: Tensor, code: Tensor, problem: LatentProblem, iterations: int, damping: float
    ) -> Tensor:
        """The output at this code."""
        ctx.problem, ctx.iterations, ctx.damping = problem, iterations, damping
        ctx.save_for_backward(images, code)
        return problem.output(code)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None, None]:
        """The gradient for the images; at a minimum the start of the steps has none."""
        images, code = ctx.saved_tensors
        problem: LatentProblem = ctx.problem
        push, pull = jacobian_products(problem.decode, code)
        right = pull(grads[0]) if problem.read is None else jacobian_products(problem.read, code)[1](grads[0])
        solved, positive = conjugate_gradients(
            lambda vector: second_products(problem, code, images, vector)[1], right, ctx.iterations
        )
        if not bool(positive.all()):
            with torch.no_grad():
                factor = problem.curvature(problem.decode(code), images).view(-1, *[1] * (code.ndim - 1))
            ridge = 2.0 * problem.prior + ctx.damping * factor
            fallback, _ = conjugate_gradients(
                lambda vector: factor * pull(push(vector)) + ridge * vector, right, ctx.iterations
            )
            solved = torch.where(positive.view(-1, *[1] * (solved.ndim - 1)), solved, fallback)
        on_images, _ = second_products(problem, code, images, solved)
        return -on_images, None, None, None, None


def conjugate_gradients(product: Product, right: Tensor, iterations: int) -> tuple[Tensor, Tensor]:
    """Solve A v = right for every image of a batch; also says for which images A looked positive definite [N]."""
    shape = (-1, *[1] * (right.ndim - 1))

    def dot(a: Tensor, b: Tensor) -> Tensor:
        return (a * b).flatten(1).sum(1)

    solution = torch.zeros_like(right)
    residual = right.clone()
    direction = right.clone()
    energy = dot(residual, residual)
    enough = 1e-12 * energy
    positive = torch.ones_like(energy, dtype=torch.bool)
    for _ in range(iterations):
        moving = positive & (energy > enough)
        if not bool(moving.any()):
            break
        image = product(direction)
        curvature = dot(direction, image)
        positive &= ~(moving & (curvature <= 0))
        moving &= positive
        length = torch.where(moving, energy / curvature.where(moving, torch.ones_like(curvature)), 0.0)
        solution += length.view(shape) * direction
        residual -= length.view(shape) * image
        after = dot(residual, residual)
        ratio = torch.where(moving, after / energy.where(moving, torch.ones_like(energy)), 0.0)
        direction = torch.where(moving.view(shape), residual + ratio.view(shape) * direction, direction)
        energy = torch.where(moving, after, energy)
    return solution, positive
