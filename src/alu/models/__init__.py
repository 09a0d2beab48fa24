"""Classifiers and generators, and the weights that come with the package."""

from alu.models.adapters import Adapter, from_huggingface, from_onnx, from_sklearn, from_timm, from_torchvision
from alu.models.amortised import amortised
from alu.models.architecture import rebuild
from alu.models.asymmetric import asymmetric
from alu.models.cards import Card, card, load, load_file, load_weights, names, rounded, save, weight_hash
from alu.models.contrastive import contrastive
from alu.models.deep_vae import deep_vae
from alu.models.denoised import Denoised
from alu.models.energy import energy
from alu.models.mixed import Mixed
from alu.models.normalisation import NormalisationCheck, check_normalisation
from alu.models.normalize import Normalize
from alu.models.projection import projection
from alu.models.resnet import resnet18, resnet20, resnet32, resnet44, resnet50, resnet56
from alu.models.score import score
from alu.models.smoothed import Certificates, Smoothed
from alu.models.unet import unet
from alu.models.vae import vae
from alu.models.wide_resnet import wide_resnet

__all__ = [
    "Adapter", "Card", "Certificates", "Denoised", "Mixed", "NormalisationCheck", "Normalize", "Smoothed",
    "amortised", "asymmetric", "card", "check_normalisation", "contrastive", "deep_vae", "energy", "from_huggingface",
    "from_onnx", "from_sklearn", "from_timm", "from_torchvision", "load", "load_file", "load_weights", "names",
    "projection", "rebuild", "resnet18", "resnet20", "resnet32", "resnet44", "resnet50", "resnet56", "rounded",
    "save", "score", "unet", "vae", "weight_hash", "wide_resnet",
]  # fmt: skip
