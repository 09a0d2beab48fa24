"""Attack: a subclass searches, this class checks, batches, projects and keeps the random numbers apart."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from alu.check import check_images, check_labels
from alu.errors import InputError
from alu.modes import evaluating
from alu.threat import ThreatModel

Watcher = Callable[[int, int], None]
"""Called with images done and images in all."""


class Attack(ABC):
    """Adversarial images of a model: `attack(model, images, labels)`, allowed by `threat`, on the images' device.

    The model's parameters, their gradients and its train/eval mode are left as they were; the global random state is
    not touched; an image's result does not depend on the batch size.
    """

    def __init__(
        self, *, norm: str = "Linf", eps: float = 8 / 255, seed: int = 0, batch_size: int = 100, targeted: bool = False
    ) -> None:
        self.threat = ThreatModel(norm, eps)
        self.seed, self.batch_size, self.targeted = seed, batch_size, targeted

    @abstractmethod
    def run(self, model: Callable[[Tensor], Tensor], images: Tensor, labels: Tensor, first: int) -> Tensor:
        """Adversarial images of one batch; `first` is the number of its first image, for its random numbers."""

    def __call__(
        self, model: Callable[[Tensor], Any], images: Tensor, labels: Tensor, watch: Watcher | None = None
    ) -> Tensor:
        """Adversarial images, same shape; if `targeted`, `labels` are the classes to reach."""
        who = type(self).__name__
        check_images(images, who)
        check_labels(labels, len(images), None, who)
        labels = labels.to(images.device)
        done: list[Tensor] = []
        with evaluating(model), torch.inference_mode(False), torch.enable_grad():
            for start in range(0, len(images), self.batch_size):
                part = slice(start, start + self.batch_size)
                origin = images[part].detach().clone()
                found = self.run(model, origin, labels[part].clone(), start)
                done.append(self.threat.project(found.detach(), origin))
                if watch is not None:
                    watch(min(start + self.batch_size, len(images)), len(images))
        return torch.cat(done) if done else images.clone()


def gradient_of(loss: Tensor, images: Tensor, who: str) -> Tensor:
    """d loss / d images, or a sentence if the model has none."""
    if not loss.requires_grad:
        raise InputError(
            f"{who} needs gradients, and the model gives none for its images. Use a query attack, "
            "or wrap a model that is differentiable."
        )
    (gradient,) = torch.autograd.grad(loss, images, allow_unused=True)
    if gradient is None:
        raise InputError(f"{who} needs gradients, and the model's logits do not depend on its images.")
    return gradient
