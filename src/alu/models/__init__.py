"""Classifiers and generators, and the weights that come with the package."""

from alu.models.normalize import Normalize
from alu.models.resnet import resnet18, resnet20, resnet32, resnet44, resnet50, resnet56, wide_resnet
from alu.models.unet import unet
from alu.models.vae import vae

__all__ = [
    "Normalize",
    "resnet18",
    "resnet20",
    "resnet32",
    "resnet44",
    "resnet50",
    "resnet56",
    "unet",
    "vae",
    "wide_resnet",
]
