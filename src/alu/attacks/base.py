"""Attack: a subclass searches, this class checks, batches, projects and keeps the random numbers apart."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypedDict

import torch
from torch import Tensor

from alu.attacks.lattice import to_lattice
from alu.check import check_images, check_labels
from alu.errors import UsageError
from alu.modes import evaluating
from alu.parts import Part
from alu.threat import Norm, ThreatModel

Watcher = Callable[[int, int], None]
"""Called with images done and images in all."""

LEFT_OUT = "Left out: "
"""How a note of our own begins, about a part that could not run; other notes are a library's words."""
ROUNDING = 1e-6
"""How far float32 arithmetic may put an image outside the ball without moving it there."""


class Common(TypedDict, total=False):
    """The settings that every attack takes."""

    norm: Norm
    eps: float
    seed: int
    batch_size: int
    lattice: bool


class Attack(Part, ABC):
    """Adversarial images of a model: `attack(model, images, labels)`, allowed by `threat`, on the images' device.

    The model's parameters, their gradients and its train/eval mode are left as they were; the global random state is
    not touched; an image's result does not depend on the batch size. With `lattice`, 8-bit pictures stay 8-bit.
    `flags_` holds what a library that was used said about the last model, word for word.
    """

    family: ClassVar[str] = "attack"
    flags_: tuple[str, ...] = ()

    def __init__(
        self,
        *,
        norm: Norm = "Linf",
        eps: float = 8 / 255,
        seed: int = 0,
        batch_size: int = 100,
        targeted: bool = False,
        lattice: bool = False,
    ) -> None:
        self.threat = ThreatModel(norm, eps)
        if batch_size < 1:
            raise UsageError(f"{type(self).__name__} needs a batch_size of at least 1; it was given {batch_size}.")
        self.seed, self.batch_size, self.targeted, self.lattice = seed, batch_size, targeted, lattice

    @property
    def norm(self) -> Norm:
        """The norm of the threat model."""
        return self.threat.norm

    @property
    def eps(self) -> float:
        """How far an image may be moved."""
        return self.threat.eps

    @property
    def common(self) -> dict[str, Any]:
        """The settings that another attack in its service shares with it."""
        return {"norm": self.norm, "eps": self.eps, "seed": self.seed, "batch_size": self.batch_size}

    @abstractmethod
    def run(self, model: Callable[[Tensor], Any], images: Tensor, labels: Tensor, numbers: Sequence[int]) -> Tensor:
        """Adversarial images of one batch; `numbers` name its images, and random numbers depend on them alone."""

    def __call__(
        self,
        model: Callable[[Tensor], Any],
        images: Tensor,
        labels: Tensor,
        watch: Watcher | None = None,
        numbers: Sequence[int] | None = None,
    ) -> Tensor:
        """Adversarial images, same shape; if `targeted`, `labels` are the classes to reach.

        An image that keeps its number (0, 1, 2... unless given) keeps its random numbers, whatever it is attacked with.
        """
        who = type(self).__name__
        check_images(images, who)
        check_labels(labels, len(images), None, who)
        labels = labels.to(images.device)
        numbers = range(len(images)) if numbers is None else numbers
        done: list[Tensor] = []
        self.flags_ = ()
        with evaluating(model), torch.inference_mode(False), torch.enable_grad():
            for part in self.batches(len(images)):
                origin = images[part].detach().clone()
                found = self.run(model, origin, labels[part].clone(), numbers[part])
                done.append(self._allowed(found.detach(), origin))
                if watch is not None:
                    watch(min(part.stop, len(images)), len(images))
        return torch.cat(done) if done else images.clone()

    def note(self, flags: Sequence[str]) -> None:
        """Keep what a library said, each sentence once."""
        self.flags_ = tuple(dict.fromkeys((*self.flags_, *flags)))

    def batches(self, count: int) -> list[slice]:
        """Which of `count` images are searched together."""
        return [slice(start, start + self.batch_size) for start in range(0, count, self.batch_size)]

    def _allowed(self, found: Tensor, origin: Tensor) -> Tensor:
        """What was found, inside the ball and, if asked for, on the lattice; what is inside already keeps every bit."""
        inside = self.threat.contains(found, origin, ROUNDING).view(-1, *[1] * (found.ndim - 1))
        found = torch.where(inside, found, self.threat.project(found, origin))
        return to_lattice(found, origin, self.threat) if self.lattice else found
