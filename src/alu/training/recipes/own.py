"""Recipes for the user's own images: `alu train classifier --data FOLDER`, `alu train vae --data FOLDER`."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from alu import data, models
from alu.errors import DataError
from alu.models.vae import VAE
from alu.progress import at_once
from alu.training.objectives import Autoencoding, Classification
from alu.training.recipes.base import Recipe
from alu.training.settings import Settings

STEPS = 2500
"""Optimiser steps unless epochs are given, few images or many."""


class OwnRecipe(Recipe):
    """A recipe without a data set: the length of the training and the batch follow from the images it is given."""

    def settings_for(self, images: data.Dataset) -> Settings:
        """About 2,500 steps, of at most 200 epochs, in batches that leave at least 8 to an epoch and fit memory."""
        most = min(self.settings.batch_size, at_once(images.shape, self.settings.batch_size))
        batch = max(2, min(most, len(images) // 8))  # batch normalisation needs two
        epochs = min(200, max(5, round(STEPS * batch / len(images))))
        return replace(self.settings, batch_size=batch, epochs=epochs)


def classifier() -> Recipe:
    """A classifier of your own images (--data): ResNet-18 of width 16, cheap to attack and to defend."""
    settings = Settings(batch_size=64, lr=0.05, weight_decay=1e-3, warmup=0.2, augment="crop-flip", average=0.99)
    return OwnRecipe("", _network, lambda: Classification(smoothing=0.1), settings)


def vae() -> Recipe:
    """A VAE of your own images (--data), for `alu fit --purifier` and `alu.purifiers.LatentVAE`."""
    settings = Settings(batch_size=128, optimizer="adam", lr=2e-3, warmup=0.1, augment="none", average=0.995)
    return OwnRecipe("", _vae, lambda: Autoencoding(sigma=0.02), settings, "vae")


def _network(images: data.Dataset) -> nn.Module:
    if len(images.classes) < 2:
        raise DataError(f"{images.name} has one class only, {images.classes[0]}; a classifier needs at least two.")
    if min(images.shape[1:]) < 8:
        raise DataError(
            f"A classifier needs images of at least 8 x 8 pixels; those of {images.name} are {images.shape[2]} x "
            f"{images.shape[1]}. Scale a folder of pictures: --size 32."
        )
    return models.resnet18(len(images.classes), images.shape[0], size=max(images.shape[1:]), width=16)


def _vae(images: data.Dataset) -> nn.Module:
    channels, height, width = images.shape
    if height % VAE.stride or width % VAE.stride or min(height, width) < 8:
        near = max(8, min(height, width) // VAE.stride * VAE.stride)
        raise DataError(
            f"A VAE needs images whose height and width are multiples of {VAE.stride} and at least 8; those of "
            f"{images.name} are {width} x {height}. Scale a folder of pictures: --size {near}."
        )
    # As in `alu fit`: a third as many code values as pixel values, and not fewer than ten a place.
    return models.vae(channels, latent=max(10, round(16 * channels / 3)), width=64)
