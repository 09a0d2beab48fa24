"""Objectives under Gaussian noise: classifiers that keep their answer when noise is added, for randomised smoothing."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alu.rng import generator
from alu.training.batches import Batch
from alu.training.objectives import Objective


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
        noisy = [batch.images + self.sigma * batch.draws.normal(batch.images) for _ in range(self.copies)]
        logits = model(torch.cat(noisy))
        labels = batch.labels.repeat(self.copies)
        each = logits.log_softmax(1).view(self.copies, len(batch.images), -1)
        mean = each.logsumexp(0) - torch.tensor(float(self.copies), device=each.device).log()
        divergence = (mean.exp() * (mean - each)).sum(2).mean()
        entropy = -(mean.exp() * mean).sum(1).mean()
        loss = F.cross_entropy(logits, labels) + self.weight * divergence + self.entropy * entropy
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
