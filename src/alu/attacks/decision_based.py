"""Attacks that use nothing but the predicted label, through foolbox; a rejected image is not a success."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Unpack

import torch
from torch import Tensor

from alu.attacks.base import Attack, Common
from alu.attacks.borrowed import borrow, undisturbed
from alu.attacks.goals import Model, fooled
from alu.check import check_images
from alu.errors import UsageError
from alu.rng import derived_seed, uniform_per_image

TRIES = 20
"""Noise images that are tried as a start for each image."""


class HopSkipJump(Attack):
    """HopSkipJump (Chen et al. 2020): estimates the direction of the boundary from predicted labels around it.

    It walks along the boundary towards the original, from the nearest wrongly answered image among `starts`, the other
    attacked images, and noise. If there is none, or if the walk ends outside the ball, the attack has failed. It draws
    random numbers for whole batches, so results depend on the batch size.

    Parameters
    ----------
    steps, queries
        Steps of the walk; step k uses `queries` * sqrt(k) calls for the direction and about forty for the boundary.
    starts
        Images to start from; plus those of `Attack`.

    Examples
    --------
    >>> adversarial = alu.attacks.HopSkipJump(steps=1, queries=2)(classifier, images[:2], labels[:2])
    """

    def __init__(
        self, *, steps: int = 20, queries: int = 50, starts: Tensor | None = None, **common: Unpack[Common]
    ) -> None:
        super().__init__(**common)
        if min(steps, queries) < 1:
            raise UsageError(f"HopSkipJump needs at least 1 step and 1 query; it was given {steps} and {queries}.")
        if starts is not None:
            check_images(starts, type(self).__name__)
        self.steps, self.queries, self.starts = steps, queries, starts

    def run(self, model: Model, images: Tensor, labels: Tensor, numbers: Sequence[int]) -> Tensor:
        """Where the walks of one batch end; an image that is answered wrongly from the start is left as it is."""
        adversarial = images.clone()
        begin, ready = self._begin(model, images, labels, numbers)
        ready &= ~fooled(model, images, labels)
        if not bool(ready.any()):
            return adversarial
        wrong = Remembered(lambda at: fooled(model, at, labels[ready]), known=begin[ready])
        with undisturbed(), torch.no_grad():
            torch.manual_seed(derived_seed(self.seed, type(self).__name__, *numbers))
            box, criterion = adapt(wrong, type(self).__name__)
            walk = borrow("foolbox", type(self).__name__, "attacks").attacks.HopSkipJumpAttack(
                steps=self.steps, initial_gradient_eval_steps=self.queries, constraint=self.norm.lower()
            )
            adversarial[ready] = walk.run(box, images[ready], criterion, starting_points=begin[ready])
        return adversarial

    def _begin(self, model: Model, images: Tensor, labels: Tensor, numbers: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The nearest wrongly answered start for each image, and whether there is one [N]."""
        nearest, least = images, torch.full((len(images),), float("inf"), device=images.device)
        for candidate in self._candidates(images, numbers):
            length = self.threat.distance(candidate, images)
            length = torch.where(fooled(model, candidate, labels), length, float("inf"))
            better = (length < least).view(-1, *[1] * (images.ndim - 1))
            nearest, least = torch.where(better, candidate, nearest), torch.minimum(least, length)
        return nearest, least.isfinite()

    def _candidates(self, images: Tensor, numbers: Sequence[int]) -> list[Tensor]:
        pool = images if self.starts is None else torch.cat([self.starts.to(images), images])
        places = torch.arange(len(images), device=images.device)
        count = min(len(pool) - 1, TRIES)
        others = [
            pool[(places + shift * max(1, len(pool) // (count + 1))) % len(pool)] for shift in range(1, count + 1)
        ]
        noise = [
            uniform_per_image(numbers, tuple(images.shape[1:]), self.seed, "start", number).to(images) / 2 + 0.5
            for number in range(TRIES)
        ]
        return [*others, *noise]


class Remembered:
    """Whether images are answered wrongly, with one call per image; `known` images are. So a random model cannot
    contradict itself during a walk, which foolbox treats as an error; success is tested by a new call."""

    def __init__(self, ask: Callable[[Tensor], Tensor], known: Tensor) -> None:
        self.ask, self.known = ask, dict.fromkeys(keys(known), True)

    def __call__(self, images: Tensor) -> Tensor:
        """Whether each image is answered wrongly [N]."""
        rows = keys(images)
        if not all(row in self.known for row in rows):
            for row, answer in zip(rows, self.ask(images).tolist(), strict=True):
                self.known.setdefault(row, answer)
        return torch.tensor([self.known[row] for row in rows], device=images.device)


def keys(images: Tensor) -> list[tuple[int, bytes]]:
    """Position and content of each image."""
    rows = images.detach().cpu().contiguous()
    return [(place, hashlib.blake2b(row.numpy(), digest_size=16).digest()) for place, row in enumerate(rows)]


def adapt(wrong: Callable[[Tensor], Tensor], who: str) -> tuple[Any, Any]:
    """A foolbox model that returns its input, and a criterion that tests whether those images are answered wrongly."""
    library, tensors = borrow("foolbox", who, "attacks"), borrow("eagerpy", who, "attacks")

    class Through(library.models.Model):  # type: ignore[misc,name-defined]
        """Returns the images; the criterion tests them."""

        bounds = library.types.Bounds(0, 1)

        def __call__(self, inputs: Any) -> Any:
            return inputs

    class Wrong(library.criteria.Criterion):  # type: ignore[misc,name-defined]
        """Accepted and wrong."""

        def __repr__(self) -> str:
            return "Wrong()"

        def __call__(self, perturbed: Any, outputs: Any) -> Any:
            return tensors.astensor(wrong(perturbed.raw.clamp(0, 1)))

    return Through(), Wrong()
