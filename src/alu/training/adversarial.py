"""Adversarial objectives: AT, TRADES, FAT, GAIRAT, MART. What each minimises is in its docstring."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alu.check import evaluating
from alu.training.batches import Batch
from alu.training.objectives import Objective

OVERFITTED = 0.6
"""Ten steps leave at least this share of what one step leaves, unless the network has learned to fool one step."""
Loss = Callable[[Tensor], Tensor]
"""Logits -> loss of each image."""


@dataclass(frozen=True)
class Perturbed:
    """Images moved uphill by sign steps inside the L∞ ball, and how many steps each took to be mistaken."""

    images: Tensor
    first_mistake: Tensor


@dataclass(frozen=True)
class Climb:
    """The inner search: `steps` sign steps of `step_size` inside the L∞ ball of radius `eps`."""

    eps: float
    steps: int
    step_size: float

    def __call__(
        self,
        model: Callable[[Tensor], Tensor],
        images: Tensor,
        labels: Tensor,
        offset: Tensor,
        loss: Loss,
        patience: int | None = None,
    ) -> Perturbed:
        """Images that climb `loss` from images + offset; with `patience`, an image stops when it is mistaken after it
        has been mistaken that many times."""
        at = (images + offset).clamp(0, 1)
        first = torch.full((len(images),), self.steps, device=images.device)
        times, stopped = torch.zeros_like(first), torch.zeros_like(first, dtype=torch.bool)
        for step in range(self.steps):
            at = at.detach().requires_grad_(True)
            logits = model(at)
            (gradient,) = torch.autograd.grad(loss(logits).sum(), at)
            mistaken = logits.detach().argmax(1) != labels
            first = torch.where(mistaken & (first == self.steps), step, first)
            moved = at.detach() + self.step_size * gradient.sign()
            moved = (images + (moved - images).clamp(-self.eps, self.eps)).clamp(0, 1)
            if patience is not None:
                stopped |= mistaken & (times >= patience)
                times += mistaken
                moved = torch.where(stopped.view(-1, 1, 1, 1), at.detach(), moved)
            at = moved
        return Perturbed(at.detach(), first)


class AdversarialObjective(Objective):
    """Base: the inner search is written once; a subclass writes what it climbs (`attack`) and what is then minimised on
    the images found (`loss_on`), apart from each other so that `AWP` can move the weights in between.

    `steps` sign steps of `step_size` from `start * eps` * uniform noise. One step of 1.25 eps from a full random start
    is fast training (Wong et al. 2020), which overfits catastrophically on small networks; `concern` says when it does.
    Held-out images are attacked at `measured_at`, whatever `eps` was trained with.

    `quiet` searches use and keep the running statistics of batch normalisation, as the authors of TRADES, FAT, GAIRAT
    and MART do; plain adversarial training searches with those of the batch, as most do.
    """

    quiet: ClassVar[bool] = False

    def __init__(
        self,
        eps: float = 8 / 255,
        steps: int = 10,
        step_size: float = 2 / 255,
        start: float = 1.0,
        measured_on: int = 500,
        measured_at: float = 8 / 255,
    ) -> None:
        self.eps, self.steps, self.step_size, self.start = eps, steps, step_size, start
        self.measured_on, self.measured_at = measured_on, measured_at

    def attack(self, model: nn.Module, batch: Batch) -> Perturbed:
        """The images to train on: they climb the cross-entropy unless a subclass says otherwise."""
        return self.search(model, batch, cross_entropy(batch.labels))

    @abstractmethod
    def loss_on(self, model: nn.Module, batch: Batch, found: Perturbed) -> tuple[Tensor, dict[str, Tensor]]:
        """The mean loss on the images found, and named parts of it for the curve."""

    def found(self, model: nn.Module, batch: Batch) -> Perturbed:
        """What `attack` finds, with batch normalisation as this objective wants it."""
        with evaluating(model) if self.quiet else nullcontext():
            return self.attack(model, batch)

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Search, then the loss on what was found."""
        return self.loss_on(model, batch, self.found(model, batch))

    def search(self, model: nn.Module, batch: Batch, loss: Loss, patience: int | None = None) -> Perturbed:
        """Adversarial images of a batch that climb `loss`."""
        offset = self.start * self.eps * batch.draws.uniform(batch.images)
        climb = Climb(self.eps, self.steps, self.step_size)
        return climb(model, batch.images, batch.labels, offset, loss, patience)

    def measure(self, model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Accuracy under PGD-10, which decides, and clean; where training takes one step, under one step too."""
        from alu.attacks import PGD

        found = {}
        with torch.enable_grad():
            at = self.measured_at
            shown = {"robust_accuracy": PGD(eps=at, steps=10)(model, images, labels), "accuracy": images}
            if self.steps == 1:
                single = PGD(eps=at, steps=1, step_size=1.25 * at)
                shown["one_step_accuracy"] = single(model, images, labels)
        for name, some in shown.items():
            found[name] = (model(some).argmax(1) == labels).float()
        return found

    def concern(self, figures: dict[str, float]) -> str:
        """Catastrophic overfitting: one step no longer finds what ten do."""
        single, many = figures.get("one_step_accuracy", 0.0), figures.get("robust_accuracy", 0.0)
        if many >= OVERFITTED * single:
            return ""
        return (
            f"This training overfits catastrophically: held-out accuracy is {100 * single:.0f} % under one step and "
            f"{100 * many:.0f} % under PGD-10. Train with more steps, or as the recipe cifar10-at does."
        )


def cross_entropy(labels: Tensor) -> Loss:
    """Cross-entropy of each image against these labels."""
    return lambda logits: F.cross_entropy(logits, labels, reduction="none")


def divergence(clean: Tensor, attacked: Tensor) -> Tensor:
    """KL(clean || attacked) of the class probabilities, for each image."""
    return F.kl_div(attacked.log_softmax(1), clean.log_softmax(1), log_target=True, reduction="none").sum(1)


class AdversarialTraining(AdversarialObjective):
    """Cross-entropy on adversarial images (Madry et al. 2018)."""

    def loss_on(self, model: nn.Module, batch: Batch, found: Perturbed) -> tuple[Tensor, dict[str, Tensor]]:
        """Mean cross-entropy on adversarial images."""
        logits = model(found.images)
        accuracy = (logits.argmax(1) == batch.labels).float().mean()
        return F.cross_entropy(logits, batch.labels), {"robust_accuracy": accuracy}


class Trades(AdversarialObjective):
    """CE(clean) + beta * KL(clean || adversarial); the search climbs the divergence (Zhang et al. 2019)."""

    quiet: ClassVar[bool] = True

    def __init__(self, beta: float = 6.0, steps: int = 10, **search: float) -> None:
        # From 0.001 beside the image: at the image itself the divergence has no slope.
        super().__init__(steps=steps, **{"start": 0.001 / (8 / 255), **search})  # type: ignore[arg-type]
        self.beta = beta

    def attack(self, model: nn.Module, batch: Batch) -> Perturbed:
        """The images climb the divergence from the clean answer."""
        with torch.no_grad():
            target = model(batch.images)
        return self.search(model, batch, lambda logits: divergence(target, logits))

    def loss_on(self, model: nn.Module, batch: Batch, found: Perturbed) -> tuple[Tensor, dict[str, Tensor]]:
        """Mean of both terms."""
        attacked = model(found.images)
        clean = model(batch.images)
        apart = divergence(clean, attacked).mean()
        return F.cross_entropy(clean, batch.labels) + self.beta * apart, {"divergence": apart}


class Friendly(AdversarialObjective):
    """Cross-entropy on images that stop when they are mistaken once more than some times (FAT, Zhang et al. 2020).

    How many times grows evenly over the training, from `earliest` to `patience`.
    """

    quiet: ClassVar[bool] = True

    def __init__(self, patience: int = 3, steps: int = 10, earliest: int = 0, **search: float) -> None:
        super().__init__(steps=steps, **search)  # type: ignore[arg-type]
        self.patience, self.earliest = patience, earliest

    def patience_at(self, done: float) -> int:
        """How often an image may be mistaken and go on, when this share of the training is done."""
        return min(self.patience, self.earliest + int(done * (self.patience - self.earliest + 1)))

    def attack(self, model: nn.Module, batch: Batch) -> Perturbed:
        """The images stop soon after they are mistaken."""
        return self.search(model, batch, cross_entropy(batch.labels), self.patience_at(batch.done))

    def loss_on(self, model: nn.Module, batch: Batch, found: Perturbed) -> tuple[Tensor, dict[str, Tensor]]:
        """Mean cross-entropy on friendly adversarial images."""
        return F.cross_entropy(model(found.images), batch.labels), {"steps": found.first_mistake.float().mean()}


class Gairat(AdversarialObjective):
    """Cross-entropy weighted by how soon an image is mistaken (Zhang et al. 2021).

    Weight (1 + tanh(shift + 5 (1 - 2 κ/K))) / 2, κ the steps until the first mistake out of K, normalised to mean 1;
    equal weights for the first share `warmup` of the training, because κ means little to a network that knows nothing.
    """

    quiet: ClassVar[bool] = True

    def __init__(self, shift: float = 0.0, steps: int = 10, warmup: float = 0.5, **search: float) -> None:
        super().__init__(steps=steps, **search)  # type: ignore[arg-type]
        self.shift, self.warmup = shift, warmup

    def weights(self, first_mistake: Tensor) -> Tensor:
        """The weight of each image [N], mean 1."""
        raw = (1 + torch.tanh(self.shift + 5 * (1 - 2 * first_mistake.float() / self.steps))) / 2
        return raw / raw.mean().clamp_min(1e-12)

    def loss_on(self, model: nn.Module, batch: Batch, found: Perturbed) -> tuple[Tensor, dict[str, Tensor]]:
        """Weighted mean cross-entropy on adversarial images."""
        weights = self.weights(found.first_mistake)
        if batch.done < self.warmup:
            weights = torch.ones_like(weights)
        each = F.cross_entropy(model(found.images), batch.labels, reduction="none")
        return (weights * each).mean(), {"steps": found.first_mistake.float().mean()}


class Mart(AdversarialObjective):
    """Boosted cross-entropy on adversarial images plus a divergence that weighs unsure clean images (Wang et al. 2020).

    -log p_y(x') - log(1.0001 - max_{k≠y} p_k(x')) + weight * KL(clean || adversarial) * (1 - p_y(x)).
    """

    quiet: ClassVar[bool] = True

    def __init__(self, weight: float = 5.0, steps: int = 10, **search: float) -> None:
        # From 0.001 beside the image, as its authors do.
        super().__init__(steps=steps, **{"start": 0.001 / (8 / 255), **search})  # type: ignore[arg-type]
        self.weight = weight

    def loss_on(self, model: nn.Module, batch: Batch, found: Perturbed) -> tuple[Tensor, dict[str, Tensor]]:
        """Mean of both terms."""
        attacked = model(found.images)
        clean = model(batch.images)
        labels = batch.labels[:, None]
        probabilities = attacked.softmax(1)
        others = probabilities.scatter(1, labels, 0.0).amax(1)
        # A little more than 1, so that the surest mistakes keep a slope.
        boosted = F.cross_entropy(attacked, batch.labels, reduction="none") - torch.log(1.0001 - others)
        unsure = 1 - clean.softmax(1).gather(1, labels).squeeze(1)
        apart = divergence(clean, attacked) * unsure
        return (boosted + self.weight * apart).mean(), {"boosted": boosted.mean(), "apart": apart.mean()}
