"""What a training minimises: one class per objective, each a loss and the figures to watch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alu.check import evaluating
from alu.data.dataset import Dataset, as_images
from alu.progress import at_once
from alu.rng import generator
from alu.training.batches import Batch


class Objective(ABC):
    """A loss to minimise, and figures measured on held-out images to choose the best weights by."""

    better: str = "higher"
    """Whether the first figure of `measure` should grow ("higher") or shrink ("lower")."""
    measured_on: int | None = None
    """How many held-out images to measure on; None is all of them."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The mean loss of a batch, and named parts of it for the curve."""

    @abstractmethod
    def measure(self, model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Per-image figures [N] on held-out images; the first one decides which weights are best."""

    def prepare(self, device: torch.device) -> None:  # noqa: B027 - most objectives hold no network
        """Move networks that the objective itself holds to the device; called once, before the first step."""

    def concern(self, figures: dict[str, float]) -> str:
        """A sentence if held-out figures show that the training has gone wrong, else nothing."""
        return ""

    def as_json(self) -> dict[str, Any]:
        """Plain values for a card or a checkpoint."""
        return {"name": type(self).__name__, **vars(self)}


class Classification(Objective):
    """Cross-entropy on clean images, with label smoothing as an option."""

    def __init__(self, smoothing: float = 0.0) -> None:
        self.smoothing = smoothing

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Mean cross-entropy."""
        logits = model(batch.images)
        loss = F.cross_entropy(logits, batch.labels, label_smoothing=self.smoothing)
        return loss, {"accuracy": (logits.argmax(1) == batch.labels).float().mean()}

    def measure(self, model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Accuracy and cross-entropy."""
        logits = model(images)
        return {
            "accuracy": (logits.argmax(1) == labels).float(),
            "cross_entropy": F.cross_entropy(logits, labels, reduction="none"),
        }


class Autoencoding(Objective):
    """The negative evidence bound of a VAE whose decoder is Gaussian with a fixed `sigma`, in nats per image.

    ||x̂ - x||² / (2σ²) + KL(q(z|x) || N(0, I)). Sigma sets how sharp reconstructions become: 0.02 keeps four fifths of
    a CIFAR-10 classifier's answers, 0.05 only two fifths.
    """

    better = "lower"

    def __init__(self, sigma: float = 0.02) -> None:
        self.sigma = sigma

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Mean bound per image."""
        mean, logvar = model.encode(batch.images)  # type: ignore[operator]
        code = mean + batch.draws.normal(mean) * (0.5 * logvar).exp()
        error = (model.decode(code) - batch.images).square().flatten(1).sum(1)  # type: ignore[operator]
        divergence = 0.5 * (mean.square() + logvar.exp() - 1.0 - logvar).flatten(1).sum(1)
        loss = (error / (2.0 * self.sigma**2) + divergence).mean()
        pixels = batch.images[0].numel()
        return loss, {"rmse": (error.mean() / pixels).sqrt(), "kl": divergence.mean()}

    def measure(self, model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Squared error per pixel through the encoder's mean, and the divergence."""
        mean, logvar = model.encode(images)  # type: ignore[operator]
        error = (model.decode(mean) - images).square().flatten(1).mean(1)  # type: ignore[operator]
        divergence = 0.5 * (mean.square() + logvar.exp() - 1.0 - logvar).flatten(1).sum(1)
        return {"squared_error": error, "kl": divergence}


class Consistency(Objective):
    """Cross-entropy on noisy copies of each image, and a penalty where the copies disagree (Jeong & Shin 2020).

    With p_i the class probabilities of copy i and p their mean: mean cross-entropy + `weight` · mean KL(p ‖ p_i) +
    `entropy` · H(p). Noise is N(0, sigma²) on every pixel; noisy images are not clipped, as in Cohen et al. 2019.
    """

    def __init__(
        self, sigma: float = 0.25, weight: float = 10.0, entropy: float = 0.5, copies: int = 2, draws: int = 8,
        measured_on: int = 1000,
    ) -> None:  # fmt: skip
        self.sigma, self.weight, self.entropy, self.copies = sigma, weight, entropy, copies
        self.draws, self.measured_on = draws, measured_on

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Mean over images and copies."""
        return self.agreement(model(self.noisy(batch)), batch.labels)

    def noisy(self, batch: Batch) -> Tensor:
        """All copies of the first kind, then all of the next [copies · N, C, H, W]."""
        return torch.cat([batch.images + self.sigma * batch.draws.normal(batch.images) for _ in range(self.copies)])

    def agreement(self, logits: Tensor, labels: Tensor, strength: float = 1.0) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss that follows from the logits of all copies; `strength` is a factor of both penalties."""
        each = logits.log_softmax(1).view(self.copies, len(labels), -1)
        labels = labels.repeat(self.copies)
        mean = each.logsumexp(0) - torch.tensor(float(self.copies), device=each.device).log()
        divergence = (mean.exp() * (mean - each)).sum(2).mean()
        entropy = -(mean.exp() * mean).sum(1).mean()
        penalty = self.weight * divergence + self.entropy * entropy
        loss = F.cross_entropy(logits, labels) + strength * penalty
        return loss, {"accuracy": (logits.argmax(1) == labels).float().mean(), "divergence": divergence}

    def measure(self, model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Mean accuracy under noise, which decides; the share of images right in every draw; clean accuracy."""
        right = []
        for draw in range(self.draws):
            noise = torch.empty(images.shape).normal_(generator=generator(0, "held-out noise", draw))
            right.append((model(images + self.sigma * noise.to(images.device)).argmax(1) == labels).float())
        counted = torch.stack(right)
        return {
            "noisy_accuracy": counted.mean(0),
            "right_in_every_draw": counted.amin(0),
            "accuracy": (model(images).argmax(1) == labels).float(),
        }


class Step(nn.Module):
    """Model and objective as one module whose `forward` is the loss.

    Distributed wrappers synchronise gradients only around `forward`, and objectives call more than a model's forward.
    """

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of a batch and its named parts."""
        return self.objective.loss(self.model, batch)


@torch.no_grad()
def measured(
    objective: Objective, model: nn.Module, data: Dataset, device: torch.device, batch_size: int = 500
) -> dict[str, float]:
    """Means of the objective's figures over held-out images; the model's mode is left as it was."""
    count = min(len(data), objective.measured_on or len(data))
    # Drawn, not the first ones: where images are sorted by class those would be of a few classes only.
    data = data.draw(count) if count < len(data) else data
    portion = at_once(data.shape, batch_size)
    sums: dict[str, float] = {}
    with evaluating(model):
        for start in range(0, count, portion):
            part = slice(start, start + portion)
            images, labels = as_images(data.pixels[part]).to(device), data.labels[part].to(device)
            for name, values in objective.measure(model, images, labels).items():
                sums[name] = sums.get(name, 0.0) + float(values.double().sum())
    return {name: total / count for name, total in sums.items()}
