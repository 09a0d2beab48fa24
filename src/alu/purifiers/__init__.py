"""Purifiers: image in, cleaner image out."""

from alu.purifiers.base import GRAD_MODES, GradMode, Purification, Purifier, Traits
from alu.purifiers.chain import Chain
from alu.purifiers.filters import BitDepth, Blur, Identity, Median
from alu.purifiers.guided import AntiAdversary, Guided, Hedge
from alu.purifiers.inner import InnerVAE
from alu.purifiers.jpeg import JPEG
from alu.purifiers.latent import LatentVAE
from alu.purifiers.pca import PCA
from alu.purifiers.unet import UNet

__all__ = [
    "GRAD_MODES", "JPEG", "PCA", "AntiAdversary", "BitDepth", "Blur", "Chain", "GradMode", "Guided", "Hedge",
    "Identity", "InnerVAE", "LatentVAE", "Median", "Purification", "Purifier", "Traits", "UNet",
]  # fmt: skip
