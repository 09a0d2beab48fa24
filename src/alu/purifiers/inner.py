"""InnerVAE: LatentVAE read at an inner layer of the decoder (Asymmetric Unified ALU, the paper's answer to BPDA)."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from alu.errors import UsageError
from alu.models.asymmetric import Asymmetric
from alu.purifiers.base import GradMode, Purification
from alu.purifiers.latent import LatentVAE


class InnerVAE(LatentVAE):
    """h(z_N): the features of an inner decoder layer after latent steps that reduce the error of the decoder's output.

    Features are not images: they are not clipped, and BPDA's identity does not fit them, so the gradient mode "bpda"
    goes backward through the stand-in h(E(x)), as an attacker would.

    Parameters
    ----------
    vae
        An `alu.models.asymmetric`, or the name of a bundled one. The same network is the classifier of the defence: it
        accepts both images and features. All settings are those of `LatentVAE`.

    Examples
    --------
    >>> alu.purifiers.InnerVAE("cifar10-asymmetric", steps=1)(images).shape
    torch.Size([4, 48, 16, 16])
    """

    def __init__(self, vae: nn.Module | str, **settings: object) -> None:
        super().__init__(vae, **settings)  # type: ignore[arg-type]
        if not isinstance(self.vae, Asymmetric):
            raise UsageError(
                f"InnerVAE reads an inner layer of alu.models.asymmetric; {type(self.vae).__name__} has none. "
                "Use LatentVAE."
            )

    def read(self, code: Tensor) -> Tensor:
        """Features [N, F, H/2, W/2] of a code."""
        return cast(Asymmetric, self.vae).inner(code)

    def purify(self, images: Tensor, grad_mode: GradMode = "unrolled", *, reconstruct: bool = False) -> Purification:
        """Features after the steps and, if `reconstruct`, before any. The value is the same in every mode."""
        return super().purify(images, "surrogate" if grad_mode == "bpda" else grad_mode, reconstruct=reconstruct)

    @staticmethod
    def _clipped(images: Tensor) -> Tensor:
        return images

    @staticmethod
    def cropped(output: Tensor, images: Tensor) -> Tensor:
        """The features unchanged: they have no padding to cut off."""
        return output
