"""Attack: a subclass searches; this class checks, batches, projects, and numbers the images for their random draws."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypedDict

import torch
from torch import Tensor

from alu.attacks.lattice import to_lattice
from alu.check import check_images, check_labels, evaluating
from alu.errors import UsageError
from alu.parts import Part
from alu.progress import Count
from alu.threat import Norm, ThreatModel

LEFT_OUT = "Left out: "
"""How our own notes begin, about a part that could not run; all other notes are messages of a library."""
ROUNDING = 1e-6
"""How far outside the ball an image may lie because of float32 rounding."""


class Common(TypedDict, total=False):
    """The settings that every attack takes."""

    norm: Norm
    eps: float
    seed: int
    batch_size: int
    lattice: bool


class Attack(Part, ABC):
    """Base of all attacks: `attack(model, images, labels)` returns adversarial images that `threat` allows.

    The model's parameters, their gradients and its train/eval mode are left as they were; the global random state is
    not touched; an image's result does not depend on the batch size. `flags_` has the messages that a library logged
    about the last model, word for word. A subclass writes `run`.

    Parameters
    ----------
    norm, eps
        The threat model: "Linf" or "L2", and how far an image may be moved in it.
    seed, batch_size
        The seed of all random numbers, and how many images are attacked together.
    targeted
        Whether the labels are the classes to reach, not the ones to leave.
    lattice
        Whether adversarial images of 8-bit pictures must be 8-bit too.

    Examples
    --------
    >>> attack = alu.attacks.PGD(norm="L2", eps=0.5, steps=1)
    >>> attack.threat.contains(attack(classifier, images, labels), images).all()
    tensor(True)
    """

    family: ClassVar[str] = "attack"
    flags_: tuple[str, ...] = ()

    def __init__(
        self, *, norm: Norm = "Linf", eps: float = 8 / 255, seed: int = 0, batch_size: int = 100,
        targeted: bool = False, lattice: bool = False,
    ) -> None:  # fmt: skip
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
        """The settings that it passes on to the attacks that it runs."""
        return {"norm": self.norm, "eps": self.eps, "seed": self.seed, "batch_size": self.batch_size}

    @abstractmethod
    def run(self, model: Callable[[Tensor], Any], images: Tensor, labels: Tensor, numbers: Sequence[int]) -> Tensor:
        """Adversarial images of one batch; random numbers depend only on the seed and its images' `numbers`."""

    def __call__(
        self, model: Callable[[Tensor], Any], images: Tensor, labels: Tensor, watch: Count | None = None,
        numbers: Sequence[int] | None = None,
    ) -> Tensor:  # fmt: skip
        """Adversarial images, same shape; if `targeted`, `labels` are the classes to reach.

        An image with the same number (0, 1, 2... by default) gets the same random numbers in any batch. `watch` is
        called with images done and images in all.
        """
        who = type(self).__name__
        check_images(images, who)
        check_labels(labels, len(images), None, who)
        labels = labels.to(images.device)
        numbers = range(len(images)) if numbers is None else numbers
        parts: list[Tensor] = []
        self.flags_ = ()
        with evaluating(model), torch.inference_mode(False), torch.enable_grad():
            for part in self.batches(len(images)):
                origin = images[part].detach().clone()
                adversarial = self.run(model, origin, labels[part].clone(), numbers[part])
                parts.append(self._allowed(adversarial.detach(), origin))
                if watch is not None:
                    watch(min(part.stop, len(images)), len(images))
        return torch.cat(parts) if parts else images.clone()

    def note(self, flags: Sequence[str]) -> None:
        """Keep the messages of a library, each one once."""
        self.flags_ = tuple(dict.fromkeys((*self.flags_, *flags)))

    def batches(self, count: int) -> list[slice]:
        """Which of `count` images are attacked together."""
        return [slice(start, start + self.batch_size) for start in range(0, count, self.batch_size)]

    def _allowed(self, images: Tensor, origin: Tensor) -> Tensor:
        """The images, projected into the ball if they are not inside and, with `lattice`, rounded to 8 bits."""
        inside = self.threat.contains(images, origin, ROUNDING).view(-1, *[1] * (images.ndim - 1))
        images = torch.where(inside, images, self.threat.project(images, origin))
        return to_lattice(images, origin, self.threat) if self.lattice else images
