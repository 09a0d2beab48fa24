"""Purifiers: image in, cleaner image out."""

from typing import Any

from alu.errors import UsageError, nearest
from alu.purifiers.anti_adversary import AntiAdversary
from alu.purifiers.base import GRAD_MODES, Purification, Purifier, Traits
from alu.purifiers.chain import Chain
from alu.purifiers.filters import BitDepth, Blur, Identity, Median
from alu.purifiers.guided import Guided
from alu.purifiers.hedge import Hedge
from alu.purifiers.inner import InnerVAE
from alu.purifiers.jpeg import JPEG
from alu.purifiers.latent import LatentVAE
from alu.purifiers.pca import PCA
from alu.purifiers.unet import UNet

_KINDS = (Identity, Blur, Median, BitDepth, JPEG, PCA, UNet, LatentVAE, InnerVAE, Chain, AntiAdversary, Hedge)
PURIFIERS: dict[str, type[Purifier]] = {kind.__name__: kind for kind in _KINDS}

__all__ = [
    "GRAD_MODES",
    "JPEG",
    "PCA",
    "PURIFIERS",
    "AntiAdversary",
    "BitDepth",
    "Blur",
    "Chain",
    "Guided",
    "Hedge",
    "Identity",
    "InnerVAE",
    "LatentVAE",
    "Median",
    "Purification",
    "Purifier",
    "Traits",
    "UNet",
    "rebuild",
]


def rebuild(description: dict[str, Any]) -> Purifier:
    """The purifier that a description stands for; its weights are loaded by the caller."""
    settings = dict(description)
    name = str(settings.pop("name", None))
    if name not in PURIFIERS:
        raise UsageError(f"alu has no purifier {name!r}. {nearest(name, list(PURIFIERS))}")
    return PURIFIERS[name].from_description(settings)
