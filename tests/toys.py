"""A defence small enough to attack in milliseconds, faults to plant into one, and models whose answers are known."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from alu import Defense, models
from alu.attacks import Attack, adaptive
from alu.data import Dataset
from alu.decision import Evidence
from alu.detectors import LogitShift
from alu.models import asymmetric, vae
from alu.models.asymmetric import Asymmetric
from alu.models.vae import VAE
from alu.purifiers import Blur, InnerVAE, LatentVAE, Purifier
from alu.rng import generator
from alu.training.batches import Batch, Draws
from alu.training.loop import Run
from alu.training.objectives import Classification
from alu.training.recipes import seeded
from alu.training.settings import Settings
from tests.conftest import SmoothClassifier
from tests.contracts.parts import images_like

SHAPE = (3, 8, 8)
CLASSES = 5


class Toy(nn.Module):
    """A small random network; its own clean answers are the labels."""

    def __init__(self) -> None:
        super().__init__()
        size = SHAPE[0] * SHAPE[1] * SHAPE[2]
        self.layers = seeded(
            lambda: nn.Sequential(nn.Flatten(), nn.Linear(size, 24), nn.Tanh(), nn.Linear(24, CLASSES)), 3
        )

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = 6.0 * self.layers(images - 0.5)
        return out


class Counted(Toy):
    """Counts the images it is asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def forward(self, images: Tensor) -> Tensor:
        self.asked += len(images)
        return super().forward(images)


def toy_images(count: int, seed: int = 0) -> Tensor:
    """Smooth random images."""
    coarse = torch.rand((count, 3, 4, 4), generator=generator(seed, "toy images"))
    return nn.functional.interpolate(coarse, SHAPE[1:], mode="bilinear").clamp(0, 1)


def toy_data(count: int = 12, model: nn.Module | None = None) -> Dataset:
    """Images with the toy's own answers as labels."""
    images = toy_images(count)
    with torch.no_grad():
        labels = (model or Toy())(images).argmax(1)
    return Dataset(images, labels, tuple(f"class {number}" for number in range(CLASSES)), "toys", "test")


def toy_defense(
    rule: str = "alu", reference: str = "input", purifier: Purifier | None = None, suspicious: float = 0.2
) -> Defense:
    """A calibrated toy: blur, or a tiny VAE for the reconstruction reading."""
    if purifier is None:
        purifier = Blur(0.5) if reference == "input" else toy_vae()
    made = Defense(Toy(), purifier, LogitShift(0.05), rule, reference, suspicious=suspicious)
    return made.calibrate(toy_images(60, seed=9))


def toy_vae(steps: int = 3) -> LatentVAE:
    """An untrained VAE: nothing it makes looks like anything, but every gradient is there."""
    return LatentVAE(seeded(lambda: VAE(channels=3, width=8, latent=4), 5).eval(), steps=steps, lr=1e-2)


def sampled() -> LatentVAE:
    """A VAE that starts from a random code: its draws follow the image."""
    vae = seeded(lambda: VAE(channels=3, width=8, latent=4), 5).eval()
    with torch.no_grad():
        vae.encoder[-1].bias.fill_(1.0)  # type: ignore[index, operator, union-attr]
    return LatentVAE(vae, steps=1, lr=1e-2, start="sampled")


def random_defense(rule: str) -> Defense:
    """A calibrated defence that declares itself random."""
    return Defense(Toy(), sampled(), LogitShift(0.05), rule, "input").calibrate(toy_images(60, seed=9))


def toy_asymmetric(reference: str = "input") -> Defense:
    """A classifier that reads an inner decoder layer: what is purified are features, which are no images."""
    network = seeded(lambda: asymmetric(CLASSES, 3, latent=4, vae_width=16, width=8), 2).eval()
    return Defense(network, InnerVAE(network, steps=3), LogitShift(0.05), "alu", reference).calibrate(
        toy_images(60, seed=9)
    )


class ConstantSlope(torch.autograd.Function):
    """Forward: nothing. Backward: the same gradient for every image."""

    @staticmethod
    def forward(ctx: Any, images: Tensor) -> Tensor:
        return images.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        fixed = torch.randn(grads[0].shape[1:], generator=generator(0, "fixed gradient"))
        return fixed.expand_as(grads[0]).clone()


class ConstantGradient(Toy):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(ConstantSlope.apply(images))  # type: ignore[no-untyped-call]


class Reseeding(Toy):
    """Adds noise, and sets the global seed first so that nobody sees it."""

    def forward(self, images: Tensor) -> Tensor:
        torch.manual_seed(0)
        return super().forward(images) + 0.1 * torch.randn(len(images), CLASSES)


class BatchPeeking(Blur):
    """Subtracts something of the whole batch."""

    def run(self, images: Tensor) -> Tensor:
        return super().run(images) - 0.3 * (images.mean(0, keepdim=True) - 0.5)


class Detached(Defense):
    """Forgets the gradient of the purifier, as careless code does."""

    def evidence(self, images: Tensor) -> Evidence:
        seen = super().evidence(images)
        return Evidence(seen.images, seen.purified, seen.pre_logits, seen.post_logits.detach())


class NoisyInTheDark(Toy):
    """Adds noise only while nobody takes a gradient."""

    def forward(self, images: Tensor) -> Tensor:
        logits = super().forward(images)
        if images.requires_grad:
            return logits
        noise = torch.randn(CLASSES, generator=generator(int(images.sum() * 1e4), "dark"))
        return logits + 5.0 * noise


class Shaky(Toy):
    """Noise of its own at every call, and declares nothing."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images) + torch.randn(len(images), CLASSES)


class NoGradient:
    """A classifier behind an endpoint."""

    def __init__(self) -> None:
        self.inner = Toy()

    def __call__(self, images: Tensor) -> Tensor:
        with torch.no_grad():
            return self.inner(images.detach())  # type: ignore[no-any-return]


class Endpoint(NoGradient):
    """The same with plain numbers: no gradient, no module, no tensor."""

    def __call__(self, images: Tensor) -> Any:
        return super().__call__(images).numpy()


def small_data(count: int = 96) -> Dataset:
    """Two classes that differ in brightness."""
    labels = torch.arange(count) % 2
    images = (0.6 * images_like(count, (3, 16, 16)) + 0.4 * labels.view(-1, 1, 1, 1)).clamp(0, 1)
    return Dataset((images * 255).to(torch.uint8), labels, ("dark", "bright"), "small")


def small_run(folder: Path | None, **changes: object) -> Run:
    settings = Settings(
        **{"epochs": 3, "batch_size": 16, "lr": 0.05, "average": 0.9, "augment": "crop-flip", "seed": 4, **changes}  # type: ignore[arg-type]
    )
    model = seeded(lambda: models.resnet18(2, width=8), settings.seed)
    return Run(model, Classification(0.1), small_data(), small_data(32), settings, folder, every=0.0)


class Killed(Exception):
    """Stands for the moment a process dies."""


EPS = 8 / 255


class Brightness(nn.Module):
    """Logits (s, -s) with s = gain * (mean pixel - 0.5): every gradient and every optimum is known."""

    def __init__(self, gain: float = 10.0) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(gain))

    def forward(self, images: Tensor) -> Tensor:
        value = self.gain * (images.flatten(1).mean(1) - 0.5)
        return torch.stack([value, -value], 1)


def batch(*means: float, labels: tuple[int, ...] | None = None) -> Batch:
    images = torch.stack([torch.full((1, 4, 4), mean) for mean in means])
    wanted = torch.tensor(labels if labels is not None else [int(mean < 0.5) for mean in means])
    return Batch(images, wanted, Draws(generator(0, "test"), slice(0, len(means)), len(means)))


def entropy(value: float) -> float:
    """Cross-entropy of class 0 at logits (value, -value)."""
    return math.log1p(math.exp(-2 * value))


def quick_attack(name: str, **settings: Any) -> adaptive.AdaptiveAttack:
    """An adaptive attack with few steps."""
    common: dict[str, Any] = {"eps": 0.15, "steps": 6, "budget": "quick", **settings}
    if name == "Query":
        common["queries"] = 20
    attack: adaptive.AdaptiveAttack = getattr(adaptive, name)(**common)
    return attack


class TwoClasses(nn.Module):
    """Logits (w·x + b, -(w·x + b)): the margin in every norm is known exactly."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(192, generator=generator(0, "weights")) / 20)

    def forward(self, images: Tensor) -> Tensor:
        value = (images - 0.5).flatten(1) @ self.weight
        return torch.stack([value, -value], 1)

    def margin(self, images: Tensor, norm: str) -> Tensor:
        """Distance to the other class."""
        value = ((images - 0.5).flatten(1) @ self.weight).detach().abs()
        dual = self.weight.abs().sum() if norm == "Linf" else self.weight.norm()
        return value / dual.detach()


class SeveralClasses(nn.Module):
    """Five linear logits: the nearest other class, and how far it is, are known exactly."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn((192, 5), generator=generator(0, "weights")) / 20)

    def forward(self, images: Tensor) -> Tensor:
        return (images - 0.5).flatten(1) @ self.weight

    def margin(self, images: Tensor, labels: Tensor, norm: str) -> Tensor:
        """Distance to the nearest other class."""
        with torch.no_grad():
            logits, apart = self(images), self.weight[:, labels].T[:, :, None] - self.weight
            dual = apart.abs().sum(1) if norm == "Linf" else apart.norm(dim=1)
            lead = logits.gather(1, labels[:, None]) - logits
            return (lead / dual).masked_fill(nn.functional.one_hot(labels, 5).bool(), float("inf")).amin(1)


def known_optimum() -> tuple[TwoClasses, Tensor, Tensor]:
    """A linear model and images far enough inside the box that no pixel is clipped."""
    model = TwoClasses()
    images = 0.5 + 0.1 * (2 * torch.rand((12, *SHAPE), generator=generator(1, "images")) - 1)
    return model, images, model(images).argmax(1)


class Shaken(TwoClasses):
    """The linear model behind noise that flips the sign of its gradient three times in ten."""

    def __init__(self) -> None:
        super().__init__()
        self.stream, self.calls = generator(0, "shaken"), 0

    def forward(self, images: Tensor) -> Tensor:
        self.calls += 1
        sign = torch.where(torch.rand((len(images), 1), generator=self.stream) < 0.3, -1.0, 1.0)
        return super().forward(images) * sign


class Nudged(Attack):
    """Moves every image a little, and remembers which model it was run on."""

    def __init__(self) -> None:
        super().__init__(eps=0.05)
        self.asked: list[tuple[Any, int]] = []

    def run(self, model: Any, images: Tensor, labels: Tensor, numbers: Sequence[int]) -> Tensor:
        self.asked.append((model, len(images)))
        return (images + 0.01).clamp(0, 1)


def above_threshold(defense: Defense, images: Tensor) -> tuple[Tensor, Tensor]:
    """Score minus threshold, and the threshold's size, by hand."""
    assert defense.detector is not None
    seen = defense.evidence(images)
    limit = defense.detector.thresholds(seen).float()
    return defense.detector.score(seen) - limit, limit.abs()


def slope(value: Tensor, at: Tensor) -> Tensor:
    """The gradient of the sum of `value`."""
    return torch.autograd.grad(value.sum(), at)[0]


def attacks_tried(attack: Any, defense: Defense) -> Counter[str]:
    """The attacks that are tried on sources, a soft output's first answer given."""
    names: Counter[str] = Counter()
    for attempt in attack.tries(defense):
        getattr(attempt, "source", Toy())(toy_images(2))
        names[type(attempt.attack).__name__] += 1
    return names


def tiny_vae(latent: int = 4) -> torch.nn.Module:
    """A decoder with a code smaller than the image, so that the residual is not zero."""
    network = seeded(lambda: vae(channels=3, latent=latent, width=8), 1).double()
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(1.5)
    return network


def relative_error(function: object, images: Tensor, count: int = 5, step: float = 1e-5) -> float:
    """Error of the directional derivatives, relative to their size, along the gradient itself and random directions."""
    images = images.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(function(images), images)  # type: ignore[operator]
    stream = torch.Generator().manual_seed(3)
    directions = [gradient, *(torch.randn(images.shape, generator=stream, dtype=images.dtype) for _ in range(count))]
    analytic, expected = [], []
    for direction in (d / d.norm() for d in directions):
        with torch.no_grad():
            high = function(images + step * direction)  # type: ignore[operator]
            low = function(images - step * direction)  # type: ignore[operator]
        expected.append(float((high - low) / (2 * step)))
        analytic.append(float((gradient * direction).sum()))
    size = sum(value**2 for value in expected) ** 0.5
    return sum((f - e) ** 2 for f, e in zip(analytic, expected, strict=True)) ** 0.5 / size


def purified_logit(purifier: object, grad_mode: str) -> object:
    """Images -> the sum of one logit after purification, with the gradient of this mode."""
    classifier = SmoothClassifier().double()

    def value(images: Tensor) -> Tensor:
        return classifier(purifier.purify(images, grad_mode).purified)[:, 1].sum()  # type: ignore[attr-defined]

    return value


def small_asymmetric(channels: int = 3) -> Asymmetric:
    """An untrained classifier that reads an inner decoder layer."""
    network = seeded(lambda: asymmetric(4, channels, latent=4, vae_width=16, width=8), 2).eval()
    assert isinstance(network, Asymmetric)
    return network
