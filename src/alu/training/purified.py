"""Objectives around a purifier: Unified ALU, its asymmetric variant, the denoiser of table 1 (HGD) and one of noise."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alu.attacks import PGD
from alu.models.cards import bundled_name, weight_hash
from alu.models.denoised import Denoised
from alu.purifiers import InnerVAE, LatentVAE, Purifier
from alu.training.adversarial import Climb, cross_entropy
from alu.training.batches import Batch
from alu.training.objectives import Consistency, Objective


class PurifiedObjective(Objective):
    """Base: cross-entropy of a classifier on purified images, a share of them after latent steps.

    A share `stepped` of each batch is optimised for `steps` latent steps first, because that is what the classifier
    will see when deployed; the rest is D(E(x)), which costs a tenth.
    """

    def __init__(self, steps: int = 5, stepped: float = 0.25, smoothing: float = 0.0, measured_on: int = 1000) -> None:
        self.steps, self.stepped, self.smoothing, self.measured_on = steps, stepped, smoothing, measured_on

    def purifier(self, model: nn.Module, steps: int) -> Purifier:
        """What the classifier sees images through."""
        raise NotImplementedError

    @torch.no_grad()
    def purified(self, model: nn.Module, images: Tensor) -> Tensor:
        """The first images after latent steps, the others reconstructed."""
        some = int(len(images) * self.stepped)
        rest = self.purifier(model, 0)(images[some:])
        return torch.cat([self.purifier(model, self.steps)(images[:some]), rest]) if some else rest

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Mean cross-entropy on purified images."""
        logits = model(self.purified(model, batch.images))
        accuracy = (logits.argmax(1) == batch.labels).float().mean()
        return F.cross_entropy(logits, batch.labels, label_smoothing=self.smoothing), {"accuracy": accuracy}

    def measure(self, model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Accuracy on reconstructions, which decides, and after 20 latent steps."""
        found = {"accuracy": 0, "accuracy_after_steps": 20}
        return {
            name: (model(self.purifier(model, steps)(images)).argmax(1) == labels).float()
            for name, steps in found.items()
        }


class Unified(PurifiedObjective):
    """Cross-entropy of a classifier on a VAE's outputs (Unified ALU): reconstructions, and after latent steps, which
    `latent` says how to take (settings of `LatentVAE`)."""

    def __init__(
        self,
        vae: nn.Module,
        steps: int = 5,
        stepped: float = 0.25,
        latent: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(steps, stepped, **more)
        self.vae, self.latent = vae, dict(latent or {})

    def prepare(self, device: torch.device) -> None:
        """Move the VAE to the device."""
        self.vae.to(device)

    def purifier(self, model: nn.Module, steps: int) -> Purifier:
        """The VAE that was given."""
        return LatentVAE(self.vae, steps=steps, **self.latent)

    def as_json(self) -> dict[str, Any]:
        """Plain values; the VAE by name or hash; usual latent steps are not mentioned, as in older runs."""
        plain = {**super().as_json(), "vae": identity(self.vae)}
        return plain if self.latent else {name: value for name, value in plain.items() if name != "latent"}


class AsymmetricUnified(PurifiedObjective):
    """Cross-entropy of a classifier on what an inner decoder layer holds (Asymmetric Unified ALU).

    The network is an `alu.models.asymmetric`, whose frozen VAE is its own.
    """

    def purifier(self, model: nn.Module, steps: int) -> Purifier:
        """The network's own VAE, read at its inner layer."""
        return InnerVAE(model, steps=steps)


class GuidedDenoising(Objective):
    """L1 distance between the logits of denoised adversarial and of clean images (HGD, Liao et al. 2018).

    The adversarial images are PGD images of a frozen copy of `classifier`, made afresh for every batch. A share `clean`
    of each batch stays as it is, so that clean images keep their answers; where that was one half, the denoiser did not
    leave the identity.
    """

    def __init__(
        self,
        classifier: nn.Module,
        eps: float = 8 / 255,
        steps: int = 20,
        step_size: float = 2 / 255,
        clean: float = 0.125,
        measured_on: int = 300,
    ) -> None:
        self.classifier = frozen(classifier)
        self.eps, self.steps, self.step_size = eps, steps, step_size
        self.clean, self.measured_on = clean, measured_on

    def prepare(self, device: torch.device) -> None:
        """Move the classifier to the device."""
        self.classifier.to(device)

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Mean logit distance over the attacked images, which come first, and the clean ones."""
        some = len(batch.images) - int(self.clean * len(batch.images))
        images, labels = batch.images[:some], batch.labels[:some]
        offset = self.eps * batch.draws.uniform(batch.images)[:some]
        climb = Climb(self.eps, self.steps, self.step_size)
        attacked = climb(self.classifier, images, labels, offset, cross_entropy(labels)).images
        with torch.no_grad():
            target = self.classifier(batch.images)
        denoised = model(torch.cat([attacked, batch.images[some:]]))
        distance = (self.classifier(denoised) - target).abs().sum(1)
        parts = {"attacked": distance[:some].mean()}
        if some < len(distance):
            parts["clean"] = distance[some:].mean()
        return distance.mean(), parts

    def measure(self, model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Accuracy after denoising PGD-20 images, which decides, and clean ones."""
        with torch.enable_grad():
            attacked = PGD(eps=self.eps, steps=20)(self.classifier, images, labels)
        return {
            "purified_accuracy": (self.classifier(model(attacked)).argmax(1) == labels).float(),
            "accuracy": (self.classifier(model(images)).argmax(1) == labels).float(),
        }

    def as_json(self) -> dict[str, Any]:
        """Plain values; the classifier by name or hash."""
        return {**super().as_json(), "classifier": identity(self.classifier)}


class NoiseDenoising(Consistency):
    """A denoiser after which a frozen copy of `classifier` keeps its answers under noise (Salman et al. 2020).

    The loss of `Consistency` on the answers to denoised copies, with the classifier's own clean answers as labels, plus
    `pixels` · the mean squared error of the denoised images. No labels are used. Over the first part of the training,
    `warmup`, the penalties grow from 0: where most answers are still wrong they only keep them from changing.
    """

    def __init__(
        self, classifier: nn.Module, sigma: float = 0.25, pixels: float = 10.0, warmup: float = 0.5, **more: Any
    ) -> None:
        super().__init__(sigma, **more)
        self.classifier, self.pixels, self.warmup = frozen(classifier), pixels, warmup

    def prepare(self, device: torch.device) -> None:
        """Move the classifier to the device."""
        self.classifier.to(device)

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Mean over images and copies."""
        with torch.no_grad():
            labels = self.classifier(batch.images).argmax(1)
        denoised = model(self.noisy(batch))
        error = (denoised - batch.images.repeat(self.copies, 1, 1, 1)).square().mean()
        strength = min(1.0, batch.done / self.warmup) if self.warmup else 1.0
        loss, parts = self.agreement(self.classifier(denoised), labels, strength)
        return loss + self.pixels * error, {**parts, "squared_error": error}

    def measure(self, model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """As for a classifier on noise, through the denoiser."""
        return super().measure(Denoised(model, self.classifier), images, labels)

    def as_json(self) -> dict[str, Any]:
        """Plain values; the classifier by name or hash."""
        return {**super().as_json(), "classifier": identity(self.classifier)}


def frozen(classifier: nn.Module) -> nn.Module:
    """A copy: gradients for weights that are not trained would cost time, and the caller's own stay as they are."""
    return copy.deepcopy(classifier).eval().requires_grad_(False)


def identity(model: nn.Module) -> str:
    """A bundled network's name, or a hash: a run must not go on with another network in its place."""
    return bundled_name(model) or weight_hash(model)[:16]
