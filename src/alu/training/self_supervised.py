"""Objectives that compare views of an image: label consistency (SOAP) and contrast (the reverse attack)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alu.purifiers import SOAP
from alu.purifiers.reverse import TEMPERATURE, info_nce
from alu.purifiers.views import CHOICES, View
from alu.rng import generator
from alu.training.batches import Batch
from alu.training.objectives import Objective


def two_views(batch: Batch) -> Tensor:
    """Two random views of each image [2N, C, H, W], all first ones before the second ones."""
    like = torch.empty(len(batch.images), CHOICES, device=batch.images.device)
    return torch.cat([View.drawn(batch.draws.uniform(like)).of(batch.images) for _ in range(2)])


class LabelConsistency(Objective):
    """Cross-entropy on two noisy views of each image, plus `weight` · the mean squared distance of their logits.

    The classifier of SOAP (Shi et al. 2021). `noise` is the standard deviation of the noise on each view.
    """

    def __init__(self, weight: float = 1.0, noise: float = 0.1) -> None:
        self.weight, self.noise = weight, noise

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Mean of both terms over images and views."""
        views = two_views(batch)
        noise = torch.cat([batch.draws.normal(batch.images) for _ in range(2)])
        logits = model((views + self.noise * noise).clamp(0.0, 1.0))
        labels = batch.labels.repeat(2)
        apart = F.mse_loss(*logits.chunk(2))
        accuracy = (logits.argmax(1) == labels).float().mean()
        return F.cross_entropy(logits, labels) + self.weight * apart, {"apart": apart, "accuracy": accuracy}

    def measure(self, model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Accuracy, which decides, and how differently an image and its mirrored middle are seen."""
        return {
            "accuracy": (model(images).argmax(1) == labels).float(),
            "inconsistency": SOAP(model).inconsistency(images),
        }


class Contrasting(Objective):
    """InfoNCE between two views of an image, told from all views of the others in the batch (Mao et al. 2021).

    Only the head of an `alu.models.contrastive` learns; its backbone is frozen.
    """

    better = "lower"

    def __init__(self, temperature: float = TEMPERATURE, measured_on: int = 1000) -> None:
        self.temperature, self.measured_on = temperature, measured_on

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Mean over images and views."""
        with torch.no_grad():
            features = model.backbone.features(two_views(batch))  # type: ignore[operator, union-attr]
        vectors: Tensor = model.vectors(features)  # type: ignore[operator]
        numbers = torch.arange(len(batch.images), device=vectors.device).repeat(2)
        others = torch.cat(vectors.chunk(2)[::-1])
        each = info_nce(vectors, others, vectors, numbers[:, None] == numbers, self.temperature)
        return each.mean(), {"alike": (vectors * others).sum(1).mean()}

    def measure(self, model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """InfoNCE against the bank, as the purifier uses it, and how alike two views are."""
        stream = generator(0, "held-out views")
        chosen = 2.0 * torch.rand((2, len(images), CHOICES), generator=stream).to(images) - 1.0
        own, other = (model(View.drawn(choice).of(images)) for choice in chosen)
        negatives = model.negatives
        assert isinstance(negatives, Tensor)
        return {"info_nce": info_nce(own, other, negatives, None, self.temperature), "alike": (own * other).sum(1)}
