"""The paper's own schedules. They need a GPU: ResNet-50 is 1.3 G multiply-adds an image at 32 pixels."""

from __future__ import annotations

from functools import partial

from alu import models
from alu.training.objectives import Autoencoding, Classification
from alu.training.purified import GuidedDenoising, Unified
from alu.training.recipes.base import Recipe
from alu.training.settings import Settings

# Rates and drops are the paper's; how long it trains in all, the batch size and the augmentation are not in it.
CLASSIFIER = Settings(
    epochs=140, batch_size=128, optimizer="adam", lr=1e-3, schedule="steps", drops=((100, 0.2), (120, 0.04)),
    augment="crop-flip",
)  # fmt: skip
PAPER = {
    "cifar10-paper-standard": Recipe(
        "The paper's classifier: ResNet-50, Adam at 1e-3, times 0.2 at epoch 100 and 0.04 at 120; 140 epochs.",
        "cifar10",
        lambda _: models.resnet50(),
        Classification,
        CLASSIFIER,
    ),
    "cifar10-paper-vae": Recipe(
        "The paper's VAE schedule: Adam at 1e-3, times 0.2 at epoch 80 and 0.04 at 100; 120 epochs; our architecture.",
        "cifar10",
        lambda _: models.vae(),
        partial(Autoencoding, sigma=0.02),
        Settings(
            epochs=120, batch_size=128, optimizer="adam", lr=1e-3, schedule="steps", drops=((80, 0.2), (100, 0.04)),
            augment="flip",
        ),
        "vae",
    ),
    "cifar10-paper-unified": Recipe(
        "The paper's Unified ALU: ResNet-50 from scratch on the outputs of `cifar10-vae`, schedule of the classifier.",
        "cifar10",
        lambda _: models.resnet50(),
        lambda: Unified(models.load("cifar10-vae")),
        CLASSIFIER,
        needs=("cifar10-vae",),
    ),
    "cifar10-paper-unet": Recipe(
        "The paper's denoiser: SGD at 0.1 for 100 epochs on PGD-20 images of `cifar10-standard`; our U-Net, wider.",
        "cifar10",
        lambda _: models.unet(width=64, levels=4),
        lambda: GuidedDenoising(models.load("cifar10-standard"), steps=20),
        Settings(epochs=100, batch_size=128, lr=0.1, schedule="cosine", augment="crop-flip"),
        "denoiser",
        ("cifar10-standard",),
    ),
}  # fmt: skip
