"""Purifiers: image in, cleaner image out."""

from alu.purifiers.adp import ADP
from alu.purifiers.base import GRAD_MODES, GradMode, Purification, Purifier, Traits
from alu.purifiers.chain import Chain
from alu.purifiers.denoising import Denoising
from alu.purifiers.diffpure import DiffPure
from alu.purifiers.filters import BitDepth, Blur, Identity, Median
from alu.purifiers.guided import AntiAdversary, Guided, Hedge
from alu.purifiers.inner import InnerVAE
from alu.purifiers.jpeg import JPEG
from alu.purifiers.latent import LatentVAE
from alu.purifiers.long_run import LongRun
from alu.purifiers.pca import PCA
from alu.purifiers.reverse import ReverseAttack
from alu.purifiers.sign_steps import SignSteps
from alu.purifiers.soap import SOAP
from alu.purifiers.stepwise import Stepwise
from alu.purifiers.unet import UNet

__all__ = [
    "ADP", "GRAD_MODES", "JPEG", "PCA", "SOAP", "AntiAdversary", "BitDepth", "Blur", "Chain", "Denoising", "DiffPure",
    "GradMode", "Guided", "Hedge", "Identity", "InnerVAE", "LatentVAE", "LongRun", "Median", "Purification", "Purifier",
    "ReverseAttack", "SignSteps", "Stepwise", "Traits", "UNet",
]  # fmt: skip
