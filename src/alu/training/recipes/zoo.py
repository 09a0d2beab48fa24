"""The bundled models: small networks, short schedules for a CPU. Where one differs from the paper, a remark says how.

Those for CIFAR-100 and tiny-ImageNet are made for subsets of 200 and 100 images a class, so they start from what
CIFAR-10 taught and are regularised hard.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from torch import nn

from alu import data, models
from alu.training.adversarial import AdversarialTraining, Friendly, Gairat, Mart, Trades
from alu.training.awp import AWP
from alu.training.objectives import Autoencoding, Classification, Consistency, Objective
from alu.training.purified import AsymmetricUnified, GuidedDenoising, NoiseDenoising, Unified
from alu.training.recipes.base import Recipe, bundled
from alu.training.settings import Settings

EVIDENCE_BOUND = partial(Autoencoding, sigma=0.02)
TWO_STEPS = partial(AdversarialTraining, steps=2, step_size=5 / 255)
METHODS: dict[str, tuple[str, Callable[[], Objective]]] = {
    "trades": ("TRADES with beta 6 and PGD-5", partial(Trades, beta=6.0, steps=5)),
    "mart": ("MART with weight 5 and PGD-5", partial(Mart, weight=5.0, steps=5)),
    "fat": (
        "FAT, one to three steps after the first mistake of PGD-5",
        partial(Friendly, earliest=1, patience=3, steps=5, step_size=3 / 255),
    ),
    "gairat": ("GAIRAT with PGD-5", partial(Gairat, steps=5, step_size=3 / 255, warmup=0.0)),
}


def _tuned(dataset: str, about: str, objective: Callable[[], Objective]) -> Recipe:
    """Fine-tuned for two epochs from the data set's adversarially trained network; trained from scratch with PGD-10
    each of these methods would take a day here."""
    settings = Settings(
        epochs=2, batch_size=128, lr=0.02, weight_decay=5e-4, warmup=0.2, augment="crop-flip", average=0.99
    )  # fmt: skip
    start = f"{dataset}-at"
    about = f"{about}, fine-tuned for two epochs from `{start}`."
    return Recipe(about, dataset, bundled(start), objective, settings, needs=(start,))


def _all_tuned(dataset: str) -> dict[str, Recipe]:
    return {f"{dataset}-{method}": _tuned(dataset, *what) for method, what in METHODS.items()}


def _noisy(about: str, sigma: float, weight: float) -> Recipe:
    """Fine-tuned for 24 epochs from `cifar10-standard`; from scratch the field trains for 90 to 150."""
    settings = Settings(
        epochs=24, batch_size=128, lr=0.1, weight_decay=1e-4, warmup=0.2, augment="crop-flip", average=0.998
    )  # fmt: skip
    start = "cifar10-standard"
    objective = partial(Consistency, sigma=sigma, weight=weight)
    return Recipe(
        f"{about}, fine-tuned from `{start}`.", "cifar10", bundled(start), objective, settings, needs=(start,)
    )


def _on_the_bundled_vae(_: data.Dataset) -> nn.Module:
    network = models.asymmetric()
    network.vae.load_state_dict(models.load("cifar10-vae").state_dict())
    return network


CIFAR10 = {
    # The paper trains with Adam at 1e-3 for more than 100 epochs (recipe cifar10-paper-vae); its network is not known.
    "cifar10-vae": Recipe(
        "A VAE for CIFAR-10: 8x8x16 code, decoder of 25 M multiply-adds.",
        "cifar10",
        lambda _: models.vae(),
        EVIDENCE_BOUND,
        Settings(epochs=14, batch_size=128, optimizer="adam", lr=2e-3, warmup=0.1, augment="flip", average=0.999),
        "vae",
    ),
    # The paper has a ResNet-50, some 40 times the work, trained with Adam (recipe cifar10-paper-standard).
    "cifar10-standard": Recipe(
        "A clean CIFAR-10 classifier that is cheap to attack: ResNet-18 of width 16, 35 M multiply-adds.",
        "cifar10",
        lambda _: models.resnet18(width=16),
        Classification,
        Settings(epochs=40, batch_size=128, lr=0.2, weight_decay=2e-4, warmup=0.2, augment="crop-flip"),
    ),
    # The paper trains from scratch (recipe cifar10-paper-unified), which needs ten times as many epochs.
    "cifar10-unified": Recipe(
        "Unified ALU: `cifar10-standard`, fine-tuned for a few epochs on the outputs of `cifar10-vae`.",
        "cifar10",
        bundled("cifar10-standard"),
        lambda: Unified(models.load("cifar10-vae")),
        Settings(epochs=4, batch_size=128, lr=0.05, weight_decay=5e-4, warmup=0.1, augment="crop-flip", average=0.998),
        needs=("cifar10-standard", "cifar10-vae"),
    ),
    # The paper names neither the layer nor the classifier.
    "cifar10-asymmetric": Recipe(
        "Asymmetric Unified ALU: a residual head of 30 M multiply-adds on an inner decoder layer of `cifar10-vae`.",
        "cifar10",
        _on_the_bundled_vae,
        AsymmetricUnified,
        Settings(epochs=8, batch_size=128, lr=0.15, weight_decay=5e-4, warmup=0.2, augment="crop-flip"),
        needs=("cifar10-vae",),
    ),
    # The paper takes PGD-20 images and SGD at 0.1 for 100 epochs (recipe cifar10-paper-unet).
    "cifar10-unet": Recipe(
        "The denoiser of table 1 (HGD), guided by the logits of `cifar10-standard`, on PGD-3 images of it.",
        "cifar10",
        lambda _: models.unet(),
        lambda: GuidedDenoising(models.load("cifar10-standard"), steps=3, step_size=4 / 255),
        Settings(epochs=3, batch_size=128, optimizer="adam", lr=2e-3, warmup=0.1, augment="crop-flip", average=0.998),
        "denoiser",
        ("cifar10-standard",),
    ),
    "cifar10-at-first": Recipe(
        "The first part of `cifar10-at`: PGD-2 in place of the paper's PGD-10; "
        "one step overfits on so small a network.",
        "cifar10",
        lambda _: models.resnet18(width=18),
        TWO_STEPS,
        Settings(epochs=14, batch_size=128, lr=0.1, weight_decay=5e-4, warmup=0.3, augment="crop-flip"),
    ),
    # The first part underfits and gives up clean accuracy for the ball; the second, with less decay, gets some back.
    "cifar10-at": Recipe(
        "Adversarial training, fine-tuned for twelve epochs from a run of `cifar10-at-first` (--start), at 7.5/255.",
        "cifar10",
        lambda _: models.resnet18(width=18),
        partial(AdversarialTraining, eps=7.5 / 255, steps=2, step_size=4.75 / 255, measured_on=1000),
        Settings(epochs=12, batch_size=128, lr=0.06, weight_decay=2e-4, warmup=0.2, augment="crop-flip"),
        continues="cifar10-at-first",
    ),
    **_all_tuned("cifar10"),
    "cifar10-awp": _tuned(
        "cifar10",
        "AWP with gamma 0.005 around adversarial training with PGD-5",
        lambda: AWP(AdversarialTraining(steps=5, step_size=3 / 255), gamma=5e-3),
    ),
    "cifar10-smooth": _noisy("For randomised smoothing with noise of 0.25: consistency of weight 10", 0.25, 10.0),
    "cifar10-smooth-50": _noisy("For randomised smoothing with noise of 0.5: consistency of weight 5", 0.5, 5.0),
    "cifar10-denoiser": Recipe(
        "A denoiser of noise of 0.25, behind which `cifar10-standard` can be smoothed as it is.",
        "cifar10",
        lambda _: models.unet(width=16, levels=4),
        lambda: NoiseDenoising(models.load("cifar10-standard"), sigma=0.25, weight=5.0),
        Settings(epochs=12, batch_size=128, optimizer="adam", lr=2e-3, warmup=0.1, augment="crop-flip", average=0.998),
        "denoiser",
        ("cifar10-standard",),
    ),
}
CIFAR10["cifar10-gairat"] = replace(
    CIFAR10["cifar10-gairat"],
    about="GAIRAT with PGD-5, fine-tuned for two epochs from `cifar10-at`, which is its warm-up.",
)


def _with_more_classes(name: str) -> Callable[[data.Dataset], nn.Module]:
    """A builder that takes a bundled CIFAR-10 network and gives it a new last layer, for as many classes as there are.

    At 64 pixels its stem has stride 2, so that it costs what it costs at 32.
    """

    def build(images: data.Dataset) -> nn.Module:
        known = models.load(name)
        facts = {**known.architecture, "num_classes": len(images.classes), "size": max(images.shape[1:])}  # type: ignore[dict-item]
        network = models.rebuild(facts)
        kept = {key: value for key, value in known.state_dict().items() if not key.startswith("linear.")}
        network.load_state_dict(kept, strict=False)
        return network

    return build


def _larger(dataset: str, about: str, vae: Recipe, at: Recipe) -> dict[str, Recipe]:
    """The models of a larger data set: `about` says what its clean classifier is."""
    standard = Recipe(
        about,
        dataset,
        _with_more_classes("cifar10-standard"),
        partial(Classification, smoothing=0.1),
        Settings(epochs=24, batch_size=64, lr=0.05, weight_decay=1e-3, warmup=0.2, augment="crop-flip-cutout"),
        needs=("cifar10-standard",),
    )
    unified = Recipe(
        f"Unified ALU: `{dataset}-standard`, fine-tuned for 4 epochs on the outputs of `{dataset}-vae`.",
        dataset,
        bundled(f"{dataset}-standard"),
        lambda: Unified(models.load(f"{dataset}-vae"), smoothing=0.1),
        Settings(epochs=4, batch_size=64, lr=0.03, weight_decay=1e-3, warmup=0.1, augment="crop-flip", average=0.998),
        needs=(f"{dataset}-standard", f"{dataset}-vae"),
    )
    own = {"standard": standard, "vae": vae, "unified": unified, "at": at}
    return {f"{dataset}-{kind}": recipe for kind, recipe in own.items()} | _all_tuned(dataset)


CIFAR100 = _larger(
    "cifar100",
    "A clean CIFAR-100 classifier, tuned from `cifar10-standard`; the paper trains a ResNet-50 from scratch.",
    vae=Recipe(
        "A VAE for CIFAR-100, fine-tuned from `cifar10-vae`; the paper's is not known.",
        "cifar100",
        bundled("cifar10-vae"),
        EVIDENCE_BOUND,
        Settings(epochs=8, batch_size=128, optimizer="adam", lr=1e-3, warmup=0.1, augment="flip", average=0.999),
        "vae",
        ("cifar10-vae",),
    ),
    at=Recipe(
        "Adversarial training on CIFAR-100, fine-tuned from `cifar10-at`: PGD-2 in place of the paper's PGD-10.",
        "cifar100",
        _with_more_classes("cifar10-at"),
        TWO_STEPS,
        Settings(epochs=5, batch_size=64, lr=0.05, weight_decay=1e-3, warmup=0.2, augment="crop-flip"),
        needs=("cifar10-at",),
    ),
)
TINY_IMAGENET = _larger(
    "tiny-imagenet",
    "A clean tiny-ImageNet classifier, tuned from `cifar10-standard` with a stem of stride 2, 35 M multiply-adds.",
    vae=Recipe(
        "A VAE for tiny-ImageNet: 16x16x16 code; narrower than `cifar10-vae`, its decoder costs 45 M multiply-adds.",
        "tiny-imagenet",
        lambda _: models.vae(width=64),
        EVIDENCE_BOUND,
        Settings(epochs=8, batch_size=64, optimizer="adam", lr=2e-3, warmup=0.1, augment="flip", average=0.999),
        "vae",
    ),
    # Five epochs from `cifar10-at` gave 13 % clean: with 90 images a class, features of these classes come first.
    at=Recipe(
        "Adversarial training on tiny-ImageNet, fine-tuned for 16 epochs from `tiny-imagenet-standard`: "
        "PGD-2 for the paper's PGD-10.",
        "tiny-imagenet",
        bundled("tiny-imagenet-standard"),
        TWO_STEPS,
        Settings(epochs=16, batch_size=64, lr=0.03, weight_decay=1e-3, warmup=0.2, augment="crop-flip", average=0.998),
        needs=("tiny-imagenet-standard",),
    ),
)
