"""The trained parts of other test-time methods, which table 3 compares: small networks, short schedules for a CPU."""

from __future__ import annotations

import torch
from torch import nn

from alu import data, models
from alu.training.generative import EnergyLearning, ScoreMatching
from alu.training.recipes.base import Recipe, bundled
from alu.training.self_supervised import Contrasting, LabelConsistency
from alu.training.settings import Settings

BANK = 512
"""Images that the training of the energy keeps moving."""


def _on_the_robust_classifier(images: data.Dataset) -> nn.Module:
    """The contrastive network around `cifar10-at`, with the features of some training images in its bank."""
    network = models.contrastive()
    network.backbone.load_state_dict(models.load("cifar10-at").state_dict())
    count = len(network.bank)
    if len(images) >= count:  # a listing builds networks without images
        with torch.no_grad():
            network.bank.copy_(network.backbone.features(images.draw(count).images))
    return network


def _with_a_bank(images: data.Dataset) -> nn.Module:
    """The energy, with training images in its bank."""
    network = models.energy(bank=BANK)
    if len(images) >= BANK:
        network.bank.copy_(images.draw(BANK).images)
    return network


METHODS = {
    "cifar10-soap": Recipe(
        "The classifier of SOAP: label consistency of weight 1, fine-tuned for eight epochs from `cifar10-standard`.",
        "cifar10",
        bundled("cifar10-standard"),
        LabelConsistency,
        Settings(epochs=8, batch_size=128, lr=0.05, weight_decay=5e-4, warmup=0.1, average=0.998),
        needs=("cifar10-standard",),
        differs=(
            "The authors train a ResNet-18 of width 64 and a wide ResNet from scratch, for 200 epochs; their crops are "
            "the same for a whole batch and are not smoothed when they are scaled. Their radii go up to 40/255, but "
            "five steps of 4/255 never leave the ball of 20/255."
        ),
    ),
    "cifar10-contrastive": Recipe(
        "A contrastive head on the frozen features of `cifar10-at`, for the reverse attack.",
        "cifar10",
        _on_the_robust_classifier,
        Contrasting,
        Settings(epochs=8, batch_size=256, optimizer="adam", lr=2e-3, warmup=0.1, average=0.998),
        "contrastive",
        ("cifar10-at",),
        differs=(
            "The authors have wide ResNets trained with more data, views with more colour, and take their negatives "
            "from the batch under test; here these are 256 training images, so that an answer does not depend on its "
            "batch."
        ),
    ),
    "cifar10-score": Recipe(
        "A denoiser for noise of 0.02 to 0.5, told its level or not: the score of ADP and of DiffPure, 58 M "
        "multiply-adds.",
        "cifar10",
        lambda _: models.score(),
        ScoreMatching,
        Settings(epochs=30, batch_size=128, optimizer="adam", lr=1e-3, warmup=0.1, augment="flip", average=0.999),
        "score",
        differs=(
            "The authors of ADP have NCSN, those of DiffPure Score SDE: each hundreds of times as costly. ADP's share "
            "of 0.05 goes with a score of one level; this one is blind to the level, and the share is 0.3. Noisy "
            "images are not clipped."
        ),
    ),
    "cifar10-energy": Recipe(
        "An energy for long-run Langevin purification, of 15 M multiply-adds, with a bank of 512 chains.",
        "cifar10",
        _with_a_bank,
        lambda: EnergyLearning(models.load("cifar10-standard")),
        Settings(epochs=5, batch_size=64, optimizer="adam", lr=1e-4, warmup=0.1, augment="flip", clip=1.0),
        "energy",
        ("cifar10-standard",),
        differs=(
            "The authors train for 250,000 batches with 100 Langevin steps of 0.005 each, from a bank of 50,000 chains "
            "that begin as noise; they purify with 1,500 steps and average 150 chains. Here it is 3,500 batches with "
            "20 steps of 0.01, from 512 chains that begin as images; 100 steps and 4 chains purify."
        ),
    ),
}
