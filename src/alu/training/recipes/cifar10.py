"""The bundled CIFAR-10 models: small networks, short schedules for a CPU; each says how it differs from the paper."""

from __future__ import annotations

from torch import nn

from alu import data, models
from alu.training.adversarial import AdversarialObjective, AdversarialTraining, Friendly, Gairat, Mart, Trades
from alu.training.awp import AWP
from alu.training.noise import Consistency
from alu.training.objectives import Autoencoding, Classification, Objective
from alu.training.purified import AsymmetricUnified, GuidedDenoising, Unified
from alu.training.recipes.base import Recipe, bundled
from alu.training.settings import Settings


def cifar10_vae() -> Recipe:
    """A VAE for CIFAR-10: 8x8x16 code, decoder of 25 M multiply-adds.

    The paper trains with Adam at 1e-3 for more than 100 epochs (recipe cifar10-paper-vae); its network is not known.
    """
    settings = Settings(
        epochs=14, batch_size=128, optimizer="adam", lr=2e-3, warmup=0.1, augment="flip", average=0.999
    )  # fmt: skip
    return Recipe("cifar10", lambda _: models.vae(), lambda: Autoencoding(sigma=0.02), settings, "vae")


def cifar10_standard() -> Recipe:
    """A clean CIFAR-10 classifier that is cheap to attack: ResNet-18 of width 16, 35 M multiply-adds.

    The paper has a ResNet-50, some 40 times the work, trained with Adam (recipe cifar10-paper-standard).
    """
    settings = Settings(epochs=40, batch_size=128, lr=0.2, weight_decay=2e-4, warmup=0.2, augment="crop-flip")
    return Recipe("cifar10", lambda _: models.resnet18(width=16), Classification, settings)


def cifar10_unified() -> Recipe:
    """Unified ALU: `cifar10-standard`, trained on for a few epochs on the outputs of `cifar10-vae`.

    The paper trains from scratch (recipe cifar10-paper-unified); starting from the clean classifier needs a tenth of
    its epochs.
    """
    settings = Settings(
        epochs=4, batch_size=128, lr=0.05, weight_decay=5e-4, warmup=0.1, augment="crop-flip", average=0.998
    )  # fmt: skip
    needs = ("cifar10-standard", "cifar10-vae")
    return Recipe(
        "cifar10", bundled("cifar10-standard"), lambda: Unified(models.load("cifar10-vae")), settings, needs=needs
    )


def cifar10_asymmetric() -> Recipe:
    """Asymmetric Unified ALU: a residual head of 30 M multiply-adds on an inner decoder layer of `cifar10-vae`.

    The paper names neither the layer nor the classifier.
    """
    settings = Settings(epochs=8, batch_size=128, lr=0.15, weight_decay=5e-4, warmup=0.2, augment="crop-flip")
    return Recipe("cifar10", _on_the_bundled_vae, AsymmetricUnified, settings, needs=("cifar10-vae",))


def _on_the_bundled_vae(_: data.Dataset) -> nn.Module:
    made = models.asymmetric()
    made.vae.load_state_dict(models.load("cifar10-vae").state_dict())
    return made


def cifar10_unet() -> Recipe:
    """The denoiser of table 1 (HGD), guided by the logits of `cifar10-standard`, on PGD-3 images of it.

    The paper takes PGD-20 images and SGD at 0.1 for 100 epochs (recipe cifar10-paper-unet).
    """
    settings = Settings(
        epochs=3, batch_size=128, optimizer="adam", lr=2e-3, warmup=0.1, augment="crop-flip", average=0.998
    )  # fmt: skip

    def objective() -> Objective:
        return GuidedDenoising(models.load("cifar10-standard"), steps=3, step_size=4 / 255)

    needs = ("cifar10-standard",)
    return Recipe("cifar10", lambda _: models.unet(), objective, settings, "denoiser", needs)


def cifar10_at_first() -> Recipe:
    """The first part of `cifar10-at`: PGD-2 in place of the paper's PGD-10; one step overfits on so small a network."""
    settings = Settings(epochs=14, batch_size=128, lr=0.1, weight_decay=5e-4, warmup=0.3, augment="crop-flip")
    return Recipe(
        "cifar10",
        lambda _: models.resnet18(width=18),
        lambda: AdversarialTraining(steps=2, step_size=5 / 255),
        settings,
    )


def cifar10_at() -> Recipe:
    """Adversarial training, twelve epochs on from a run of `cifar10-at-first` (--start), at 7.5/255.

    The first part underfits and gives up clean accuracy for the ball; the second, with less decay, gets some back.
    """
    settings = Settings(epochs=12, batch_size=128, lr=0.06, weight_decay=2e-4, warmup=0.2, augment="crop-flip")
    return Recipe(
        "cifar10",
        lambda _: models.resnet18(width=18),
        lambda: AdversarialTraining(eps=7.5 / 255, steps=2, step_size=4.75 / 255, measured_on=1000),
        settings,
        continues="cifar10-at-first",
    )


def tuned(objective: AdversarialObjective | AWP, dataset: str = "cifar10") -> Recipe:
    """Two epochs on from the data set's adversarially trained network; trained from scratch with PGD-10 each of these
    methods would take a day here."""
    settings = Settings(
        epochs=2, batch_size=128, lr=0.02, weight_decay=5e-4, warmup=0.2, augment="crop-flip", average=0.99
    )  # fmt: skip
    start = f"{dataset}-at"
    return Recipe(dataset, bundled(start), lambda: objective, settings, needs=(start,))


def cifar10_trades() -> Recipe:
    """TRADES with beta 6 and PGD-5, two epochs on from `cifar10-at`."""
    return tuned(Trades(beta=6.0, steps=5))


def cifar10_mart() -> Recipe:
    """MART with weight 5 and PGD-5, two epochs on from `cifar10-at`."""
    return tuned(Mart(weight=5.0, steps=5))


def cifar10_fat() -> Recipe:
    """FAT, one to three steps after the first mistake of PGD-5, two epochs on from `cifar10-at`."""
    return tuned(Friendly(earliest=1, patience=3, steps=5, step_size=3 / 255))


def cifar10_gairat() -> Recipe:
    """GAIRAT with PGD-5, two epochs on from `cifar10-at`, which is its warm-up."""
    return tuned(Gairat(steps=5, step_size=3 / 255, warmup=0.0))


def cifar10_awp() -> Recipe:
    """AWP with gamma 0.005 around adversarial training with PGD-5, two epochs on from `cifar10-at`."""
    return tuned(AWP(AdversarialTraining(steps=5, step_size=3 / 255), gamma=5e-3))


def _noisy(objective: Consistency) -> Recipe:
    """24 epochs on from `cifar10-standard`; from scratch the field trains for 90 to 150."""
    settings = Settings(
        epochs=24, batch_size=128, lr=0.1, weight_decay=1e-4, warmup=0.2, augment="crop-flip", average=0.998
    )  # fmt: skip
    return Recipe("cifar10", bundled("cifar10-standard"), lambda: objective, settings, needs=("cifar10-standard",))


def cifar10_smooth() -> Recipe:
    """For randomised smoothing with noise of 0.25: consistency of weight 10, on from `cifar10-standard`."""
    return _noisy(Consistency(sigma=0.25, weight=10.0))


def cifar10_smooth_50() -> Recipe:
    """For randomised smoothing with noise of 0.5: consistency of weight 5, on from `cifar10-standard`."""
    return _noisy(Consistency(sigma=0.5, weight=5.0))
