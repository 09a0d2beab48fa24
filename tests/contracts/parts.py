"""Every part that the contract suite runs over; a new part is added here once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from alu import attacks, models
from alu.attacks import Attack
from alu.detectors import Combined, Confidence, Detector, Disagreement, LogitPeak, LogitShift, ReconstructionError
from alu.purifiers import (
    ADP,
    JPEG,
    PCA,
    SOAP,
    AntiAdversary,
    BitDepth,
    Blur,
    Chain,
    DiffPure,
    Hedge,
    Identity,
    LatentVAE,
    LongRun,
    Median,
    Purifier,
    ReverseAttack,
    UNet,
)
from alu.rng import generator
from alu.training.recipes import seeded

Shape = tuple[int, int, int]


def images_like(count: int, shape: Shape, seed: int = 0) -> Tensor:
    """Smooth random pictures in [0, 1]: low frequencies and a little noise."""
    stream = generator(seed, "contract images", shape)
    coarse = torch.rand((count, shape[0], 4, 4), generator=stream)
    smooth = nn.functional.interpolate(coarse, size=shape[1:], mode="bilinear", align_corners=False)
    noise = 0.1 * torch.rand((count, *shape), generator=stream)
    return (0.9 * smooth + noise).clamp(0, 1)


def small_vae(shape: Shape) -> nn.Module:
    return seeded(lambda: models.vae(channels=shape[0], latent=4, width=16), 3)


def small_amortised(shape: Shape, steps: int = 2) -> nn.Module:
    def build() -> nn.Module:
        return models.amortised(shape[0], latent=4, width=16, breadth=16, steps=steps)

    return awake(seeded(build, 3))


def small_deep_vae(shape: Shape) -> nn.Module:
    """For pictures up to this one; smaller ones are padded."""
    size = -(-max(shape[1:]) // 8) * 8
    return awake(seeded(lambda: models.deep_vae(shape[0], size, code=12, width=8, refine=8), 3), 0.05)


def small_resnet(shape: Shape) -> nn.Module:
    return seeded(lambda: models.resnet18(channels=shape[0], width=8), 6).eval()


def small_unet(shape: Shape) -> nn.Module:
    network = seeded(lambda: models.unet(channels=shape[0], width=8, levels=3), 4)
    assert isinstance(network.last, nn.Conv2d)
    with torch.no_grad():  # an untrained denoiser is the identity; give it something to do
        network.last.weight.fill_(0.02)
    return network


def awake(network: nn.Module, size: float = 0.3) -> nn.Module:
    """The network with random weights where it starts with zeros, so that it does something untrained."""
    stream = generator(0, "awake")
    with torch.no_grad():
        for weight in (*network.parameters(), *network.buffers()):
            if weight.ndim > 1 and weight.numel() and not bool(weight.any()):
                weight.copy_(size * torch.randn(weight.shape, generator=stream) / weight[0].numel() ** 0.5)
    return network.eval()


def small_score(shape: Shape) -> nn.Module:
    return awake(seeded(lambda: models.score(channels=shape[0], width=8), 7))


def small_energy(shape: Shape) -> nn.Module:
    return awake(seeded(lambda: models.energy(channels=shape[0], width=8), 8))


def small_contrastive(shape: Shape) -> nn.Module:
    return awake(seeded(lambda: models.contrastive(channels=shape[0], width=8, code=8, negatives=6), 9))


PURIFIERS: dict[str, Callable[[Shape], Purifier]] = {
    "identity": lambda _: Identity(),
    "blur": lambda _: Blur(0.7),
    "median": lambda _: Median(3),
    "bit depth": lambda _: BitDepth(4),
    "jpeg": lambda _: JPEG(60),
    "pca": lambda shape: PCA(12).fit(images_like(40, shape, seed=8)),
    "unet": lambda shape: UNet(small_unet(shape)),
    "vae gd": lambda shape: LatentVAE(small_vae(shape), steps=5, lr=1e-3, solver="gd", schedule="constant"),
    "vae gd norm": lambda shape: LatentVAE(small_vae(shape), steps=4, lr=0.1, solver="gd", objective="norm"),
    "vae adam": lambda shape: LatentVAE(small_vae(shape), steps=5, prior=0.01),
    "vae stride 8": lambda shape: LatentVAE(seeded(lambda: models.vae(shape[0], 8, 16, stride=8), 3), steps=2),
    "vae dense": lambda shape: LatentVAE(small_deep_vae(shape), steps=3, lr=0.02, solver="gd", schedule="constant"),
    "vae no steps": lambda shape: LatentVAE(small_vae(shape), steps=0),
    "vae sampled": lambda shape: LatentVAE(small_vae(shape), steps=3, start="sampled"),
    "vae random": lambda shape: LatentVAE(small_vae(shape), steps=3, start="random"),
    "vae learned": lambda shape: LatentVAE(small_amortised(shape), solver="learned"),
    "anti-adversary": lambda shape: AntiAdversary(small_resnet(shape)),
    "hedge": lambda shape: Hedge(small_resnet(shape), steps=3),
    "soap": lambda shape: SOAP(small_resnet(shape), steps=2, radii=2),
    "reverse attack": lambda shape: ReverseAttack(small_contrastive(shape), steps=2),
    "adp": lambda shape: ADP(small_score(shape), steps=2, draws=2),
    "diffpure": lambda shape: DiffPure(small_score(shape), steps=3),
    "long run": lambda shape: LongRun(small_energy(shape), steps=3, draws=2),
    "chain of draws": lambda shape: Chain(Blur(0.5), ADP(small_score(shape), steps=1, draws=2)),
    "chain": lambda shape: Chain(Blur(0.5), LatentVAE(small_vae(shape), steps=3, lr=1e-3, solver="gd")),
}

DETECTORS: dict[str, Callable[[], Detector]] = {
    "logit shift": lambda: LogitShift(0.05),
    "logit peak": lambda: LogitPeak(0.05),
    "logit shift per class": lambda: LogitShift(0.2, per_class=True),
    "reconstruction error": lambda: ReconstructionError(0.05),
    "disagreement": lambda: Disagreement(0.05),
    "confidence": lambda: Confidence(0.05),
    "combined": lambda: Combined(LogitShift(0.05), ReconstructionError(0.05), false_alarm=0.05),
}

OWN_ATTACKS: dict[str, Callable[..., Attack]] = {
    "FGSM": attacks.FGSM,
    "PGD": lambda **common: attacks.PGD(steps=4, **common),
    "PGD best": lambda **common: attacks.PGD(steps=4, keep="best", **common),
    "PGD fooled": lambda **common: attacks.PGD(steps=7, keep="fooled", **common),
    "PGD margin": lambda **common: attacks.PGD(steps=4, loss="margin", **common),
    "PGD stopping": lambda **common: attacks.PGD(steps=4, stop_when_fooled=True, **common),
    "PGD restarted": lambda **common: attacks.PGD(steps=4, restarts=3, **common),
    "PGD averaged": lambda **common: attacks.PGD(steps=3, draws=2, **common),
    "MIM": lambda **common: attacks.MIM(steps=4, **common),
    "CW∞": lambda **common: attacks.CWLinf(steps=4, **common),
    "BPDA-EOT": lambda **common: attacks.BPDAEOT(steps=3, draws=2, **common),
}
"""Searches of our own: an image's result depends on its number alone."""

BORROWED_ATTACKS: dict[str, Callable[..., Attack]] = {
    "APGD-CE": lambda **common: attacks.APGDCE(steps=5, **common),
    "APGD-T": lambda **common: attacks.APGDT(steps=5, targets=2, **common),
    "FAB": lambda **common: attacks.FAB(steps=3, targets=2, **common),
    "Square": lambda **common: attacks.Square(queries=20, **common),
    "HopSkipJump": lambda **common: attacks.HopSkipJump(steps=2, queries=5, **common),
}
"""Searches of other libraries, which draw for whole batches."""

MODELS: dict[str, Callable[[Shape, int], nn.Module]] = {
    "resnet20": lambda shape, classes: models.resnet20(classes, shape[0]),
    "resnet32": lambda shape, classes: models.resnet32(classes, shape[0]),
    "resnet44": lambda shape, classes: models.resnet44(classes, shape[0]),
    "resnet56": lambda shape, classes: models.resnet56(classes, shape[0]),
    "resnet18": lambda shape, classes: models.resnet18(classes, shape[0], size=shape[1], width=8),
    "resnet50": lambda shape, classes: models.resnet50(classes, shape[0], size=shape[1], width=8),
    "wide resnet": lambda shape, classes: models.wide_resnet(classes, depth=10, factor=1, channels=shape[0]),
    "asymmetric": lambda shape, classes: models.asymmetric(classes, shape[0], latent=4, vae_width=16, width=8),
}


class LinearClassifier(nn.Module):
    """A fixed random linear classifier for any shape; its logits spread over several units."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__()
        self.layer = seeded(lambda: nn.Linear(shape[0] * shape[1] * shape[2], classes, bias=False), 5)
        with torch.no_grad():
            for weight in self.layer.parameters():
                weight.mul_(8.0)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.layer((images - 0.5).flatten(1))
        return logits
