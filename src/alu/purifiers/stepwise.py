"""Stepwise: purifiers that move the image itself by steps, with the exact gradient of all of them in the memory of one.

Only the images x_0..x_N are kept. Walking back, each step is done again with a graph and differentiated alone; what
arrives at x_0 goes on to the image through the start.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from alu.check import evaluating
from alu.models.vae import padded_to
from alu.purifiers.base import GradMode, Purification, Purifier


class Recomputed(torch.autograd.Function):
    """x_N, as a function of the start x_0 and of the images as they came."""

    @staticmethod
    def forward(ctx: Any, start: Tensor, images: Tensor, purifier: Stepwise) -> Tensor:
        """All steps without a graph, as they are deployed."""
        ctx.purifier, ctx.visited = purifier, []
        ctx.save_for_backward(images)
        at = start.detach().clone()
        for number in range(purifier.steps):
            ctx.visited.append(at)
            at = purifier.step(at, images.detach(), number).detach()
        return at

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        """Gradients for the start and for the images, one step at a time."""
        (images,) = ctx.saved_tensors
        carried, total = grads[0], torch.zeros_like(images)
        for number in range(len(ctx.visited) - 1, -1, -1):
            at, came = (tensor.detach().requires_grad_(True) for tensor in (ctx.visited[number], images))
            # The steps are done again after the purifier may have gone back to train mode.
            with torch.enable_grad(), evaluating(ctx.purifier):
                after = ctx.purifier.smooth_step(at, came, number)
            on_at, on_images = torch.autograd.grad(after, (at, came), carried, allow_unused=True)
            carried = torch.zeros_like(at) if on_at is None else on_at
            total = total if on_images is None else total + on_images
        return carried, total, None


class Stepwise(Purifier):
    """Base of purifiers that move the image by steps. A subclass writes `step`, and `begin` if it does not start at the
    image itself.

    The gradient modes "unrolled" and "implicit" differentiate every step (`smooth_step` where a step has no useful
    derivative); the memory does not grow with their number, but for the images on the way.

    Parameters
    ----------
    steps
        How many steps are made.

    Examples
    --------
    >>> issubclass(alu.purifiers.DiffPure, alu.purifiers.Stepwise)
    True
    """

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def begin(self, images: Tensor) -> Tensor:
        """x_0; differentiable."""
        return images

    @abstractmethod
    def step(self, at: Tensor, images: Tensor, number: int) -> Tensor:
        """x_{k+1} from x_k, the images as they came, and k; differentiable unless `smooth_step` is."""

    def smooth_step(self, at: Tensor, images: Tensor, number: int) -> Tensor:
        """What is differentiated in place of `step`."""
        return self.step(at, images, number)

    @property
    def stride(self) -> int:
        """Height and width must be multiples of this; images are padded to that and cut again."""
        return 1

    def padded(self, images: Tensor) -> Tensor:
        """Images padded at the right and the bottom to multiples of the stride."""
        return padded_to(images, self.stride)

    @staticmethod
    def cropped(output: Tensor, images: Tensor) -> Tensor:
        """An output of padded images, without the padding."""
        return output[:, :, : images.shape[2], : images.shape[3]]

    def run(self, images: Tensor) -> Tensor:
        """The images after all steps."""
        padded = self.padded(images)
        walked: Tensor = Recomputed.apply(self.begin(padded), padded, self)  # type: ignore[no-untyped-call]
        return self.cropped(walked, images)

    def differentiated(self, images: Tensor, grad_mode: GradMode, reconstruct: bool) -> Purification:
        """The images after all steps, with the gradient of these or of `surrogate`."""
        if grad_mode == "surrogate":
            return super().differentiated(images, grad_mode, reconstruct)
        return Purification(self._clipped(self.run(images)))
