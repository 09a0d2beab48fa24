"""Objectives around a purifier: Unified ALU, and the denoiser of table 1 (HGD)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alu.attacks import PGD
from alu.models.cards import bundled_name
from alu.purifiers import LatentVAE
from alu.training.batches import Batch
from alu.training.objectives import Objective


class Unified(Objective):
    """Cross-entropy of a classifier on a VAE's outputs (Unified ALU): reconstructions, and after latent steps.

    A share `stepped` of each batch is optimised for `steps` latent steps first, because that is what the classifier
    will see when deployed; the rest is D(E(x)), which costs a tenth.
    """

    def __init__(self, vae: nn.Module, steps: int = 5, stepped: float = 0.25, measured_on: int = 1000) -> None:
        self.vae, self.steps, self.stepped, self.measured_on = vae, steps, stepped, measured_on

    def purified(self, images: Tensor) -> Tensor:
        """The first images after latent steps, the others reconstructed."""
        some = int(len(images) * self.stepped)
        after = LatentVAE(self.vae, steps=self.steps)(images[:some])
        with torch.no_grad():
            return torch.cat([after, LatentVAE(self.vae, steps=0)(images[some:])])

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Mean cross-entropy on purified images."""
        logits = model(self.purified(batch.images))
        accuracy = (logits.argmax(1) == batch.labels).float().mean()
        return F.cross_entropy(logits, batch.labels), {"accuracy": accuracy}

    def measure(self, model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Accuracy on reconstructions, which decides, and after 20 latent steps."""
        reconstructed = LatentVAE(self.vae, steps=0)(images)
        after = LatentVAE(self.vae, steps=20)(images)
        return {
            "accuracy": (model(reconstructed).argmax(1) == labels).float(),
            "accuracy_after_steps": (model(after).argmax(1) == labels).float(),
        }

    def as_json(self) -> dict[str, Any]:
        """Plain values; the VAE by name."""
        return {"name": "Unified", "vae": bundled_name(self.vae), "steps": self.steps, "stepped": self.stepped}


class GuidedDenoising(Objective):
    """L1 distance between the logits of denoised adversarial and of clean images (HGD, Liao et al. 2018).

    The adversarial images are PGD images of the frozen `classifier`, made afresh for every batch.
    """

    def __init__(self, classifier: nn.Module, eps: float = 8 / 255, steps: int = 20, measured_on: int = 300) -> None:
        self.classifier, self.eps, self.steps, self.measured_on = classifier, eps, steps, measured_on

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Mean logit distance, half of the batch attacked and half clean, so that clean images keep their answers."""
        half = len(batch.images) // 2
        attacked = PGD(eps=self.eps, steps=self.steps)(self.classifier, batch.images[:half], batch.labels[:half])
        with torch.no_grad():
            target = self.classifier(batch.images)
        denoised = model(torch.cat([attacked, batch.images[half:]]))
        distance = (self.classifier(denoised) - target).abs().sum(1)
        return distance.mean(), {"attacked": distance[:half].mean(), "clean": distance[half:].mean()}

    def measure(self, model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Accuracy after denoising PGD-20 images, which decides, and clean ones."""
        with torch.enable_grad():
            attacked = PGD(eps=self.eps, steps=20)(self.classifier, images, labels)
        return {
            "purified_accuracy": (self.classifier(model(attacked)).argmax(1) == labels).float(),
            "accuracy": (self.classifier(model(images)).argmax(1) == labels).float(),
        }

    def as_json(self) -> dict[str, Any]:
        """Plain values; the classifier by name."""
        return {"name": "GuidedDenoising", "classifier": bundled_name(self.classifier), "eps": self.eps,
                "steps": self.steps}  # fmt: skip
