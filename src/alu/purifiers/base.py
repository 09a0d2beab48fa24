"""Purifier: images in, cleaner images out, with a gradient for those who attack it."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, get_args

import torch
from torch import Tensor, nn

from alu.check import check_images, evaluating
from alu.errors import InputError, UsageError, check_choice
from alu.parts import Part
from alu.rng import derived_seed

GradMode = Literal["blind", "bpda", "surrogate", "unrolled", "implicit"]
GRAD_MODES: tuple[GradMode, ...] = get_args(GradMode)


@dataclass(frozen=True)
class Traits:
    """The properties of a part that decide which attacks it must be evaluated with.

    Parameters
    ----------
    stochastic, iterative, batch_dependent
        Whether it is random, makes several steps, or lets one image change the result of another.
    gradient
        "exact", "approximate" (a smooth stand-in for rounding), or "twin" (of a gradient-descent twin).
    detector
        Whether answers depend on a detector that an attacker can aim at.
    search
        Whether that detector searches around the image, so that an attacker can aim at the search.
    mixture
        Whether the classifier mixes others and sharpens them, so that its own gradient may vanish where theirs do not.

    Examples
    --------
    >>> alu.purifiers.JPEG().traits.gradient
    'approximate'
    """

    stochastic: bool = False
    iterative: bool = False
    batch_dependent: bool = False
    gradient: str = "exact"
    detector: bool = False
    search: bool = False
    mixture: bool = False

    def joined(self, other: Traits) -> Traits:
        """The traits of two parts in a row: of each trait the value that is harder to attack."""
        order = ("exact", "approximate", "twin")
        return Traits(
            self.stochastic or other.stochastic,
            self.iterative or other.iterative,
            self.batch_dependent or other.batch_dependent,
            max(self.gradient, other.gradient, key=order.index),
            self.detector or other.detector,
            self.search or other.search,
            self.mixture or other.mixture,
        )


@dataclass(frozen=True)
class Purification:
    """What `Purifier.purify` returns.

    Parameters
    ----------
    purified, reconstruction
        The purified images and, if it was asked for, the output before any step.
    others
        The same images in further random draws, where a purifier makes several.

    Examples
    --------
    >>> purified = alu.purifiers.Blur().purify(images).purified
    """

    purified: Tensor
    reconstruction: Tensor | None = None
    others: tuple[Tensor, ...] = ()

    def averaged(self, logits: Callable[[Tensor], Tensor]) -> Tensor:
        """The mean over all draws of what `logits` says of them."""
        if not self.others:
            return logits(self.purified)
        return torch.stack([logits(draw) for draw in (self.purified, *self.others)]).mean(0)


class Replace(torch.autograd.Function):
    """Forward: the exact value. Backward: as if it were the differentiable stand-in."""

    @staticmethod
    def forward(ctx: Any, stand_in: Tensor, value: Tensor) -> Tensor:
        """The value, unchanged to the bit."""
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        """All of the gradient goes to the stand-in."""
        return grads[0], None


def replace(stand_in: Tensor, value: Tensor) -> Tensor:
    """`value`, with the gradient of `stand_in`."""
    replaced: Tensor = Replace.apply(stand_in, value)  # type: ignore[no-untyped-call]
    return replaced


class Purifier(Part, nn.Module, ABC):
    """Base of all purifiers. A subclass writes `run`; this class checks, clips, and provides every gradient mode.

    Output: same shape, dtype and device as the images, in [0, 1]. An image's result does not depend on its batch.

    Examples
    --------
    >>> class Darker(alu.purifiers.Purifier):
    ...     def run(self, images):
    ...         return 0.9 * images
    """

    family: ClassVar[str] = "purifier"
    draws: int = 1
    """How many random draws `purify` makes, by as many seeds; a defence averages their logits."""
    stands_in: ClassVar[bool] = True
    """Whether `surrogate` is worth differentiating; where it is only the image itself, attackers take BPDA."""

    @property
    def traits(self) -> Traits:
        """What an attacker has to deal with."""
        return Traits()

    @property
    def has_reconstruction(self) -> bool:
        """Whether there is an output before any step to compare with."""
        return False

    @abstractmethod
    def run(self, images: Tensor) -> Tensor:
        """Purified images. Called when no gradient is needed; may still be differentiable."""

    def surrogate(self, images: Tensor) -> Tensor:
        """A differentiable stand-in for `run`, used for gradients only."""
        return self.run(images)

    def differentiated(self, images: Tensor, grad_mode: GradMode, reconstruct: bool) -> Purification:
        """Purified images with the gradient of `surrogate`, `unrolled` or `implicit`; a filter has one for all."""
        reconstruction = self.reconstructed(images) if reconstruct else None
        value = self._exact(images.detach(), False).purified
        return Purification(replace(self.smooth(images), value), reconstruction)

    def purify(self, images: Tensor, grad_mode: GradMode = "unrolled", *, reconstruct: bool = False) -> Purification:
        """Purified images in every draw and, if `reconstruct`, the reconstruction; the same values in every mode."""
        if self.draws > 1:
            first = self._drawn(0).purify(images, grad_mode, reconstruct=reconstruct)
            more = [self._drawn(number).purify(images, grad_mode).purified for number in range(1, self.draws)]
            return Purification(first.purified, first.reconstruction, tuple(more))
        who = type(self).__name__
        check_choice("gradient mode", grad_mode, GRAD_MODES)
        check_images(images, who)
        self._check_dtype(images)
        if reconstruct and not self.has_reconstruction:
            raise UsageError(
                f"reference='reconstruction' compares with the purifier's output before any step, but {who} has none. "
                "Use reference='input', or LatentVAE."
            )
        if images.shape[0] == 0:
            return Purification(images.clone(), images.clone() if reconstruct else None)
        wants_gradient = torch.is_grad_enabled() and images.requires_grad and grad_mode != "blind"
        with torch.inference_mode(False), evaluating(self):
            if not wants_gradient:
                with torch.no_grad():
                    # A tensor made under inference_mode cannot enter a graph; a copy can.
                    plain = images.clone() if images.is_inference() else images.detach()
                    return self._exact(plain, reconstruct)
            with torch.enable_grad():
                if grad_mode == "bpda":
                    exact = self._exact(images.detach(), False)
                    reconstruction = self.reconstructed(images) if reconstruct else None
                    others = tuple(replace(images, draw) for draw in exact.others)
                    return Purification(replace(images, exact.purified), reconstruction, others)
                return self.differentiated(images, grad_mode, reconstruct)

    def forward(self, images: Tensor, grad_mode: GradMode = "unrolled") -> Tensor:
        """Purified images, in the first draw."""
        return self._drawn(0).purify(images, grad_mode).purified

    def _drawn(self, number: int) -> Self:
        """A purifier that makes one of this one's draws; it shares all weights."""
        if self.draws == 1:
            return self
        one = copy.copy(self)
        one.draws = 1
        if number:
            one.seed = derived_seed(self.seed, "averaged", number)  # type: ignore[assignment, arg-type]
        return one

    def reconstruct(self, images: Tensor) -> Tensor:
        """The differentiable output before any step; only where `has_reconstruction`."""
        raise UsageError(f"{type(self).__name__} has no reconstruction.")

    def reconstructed(self, images: Tensor) -> Tensor:
        """The reconstruction, clipped, as the classifier gets it."""
        return self._clipped(self.reconstruct(images))

    def smooth(self, images: Tensor) -> Tensor:
        """The differentiable stand-in, clipped, as the classifier would get it."""
        return self._clipped(self.surrogate(images))

    def _exact(self, images: Tensor, reconstruct: bool) -> Purification:
        """What is deployed, without a gradient."""
        with torch.no_grad():
            reconstruction = self.reconstructed(images) if reconstruct else None
            return Purification(self._clipped(self.run(images)), reconstruction)

    @staticmethod
    def _clipped(images: Tensor) -> Tensor:
        return images.clamp(0.0, 1.0)

    def _check_dtype(self, images: Tensor) -> None:
        for tensor in (*self.parameters(), *self.buffers()):
            if tensor.is_floating_point() and tensor.dtype != images.dtype:
                raise InputError(
                    f"{type(self).__name__} computes in {tensor.dtype}, but the images are {images.dtype}. "
                    "Convert one of them: images.float(), or purifier.double()."
                )
            if tensor.device != images.device:
                raise InputError(
                    f"{type(self).__name__} is on {tensor.device}, but the images are on {images.device}. "
                    "Move one of them with .to(device)."
                )
