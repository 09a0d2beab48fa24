"""Denoised: a classifier that never saw noise, behind a denoiser, so that it can be smoothed (Salman et al. 2020)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from alu.errors import UsageError
from alu.models.cards import load
from alu.models.vae import padded_to


class Denoised(nn.Module):
    """The classifier's answer on what a denoiser makes of noisy images: the plug-in case of `Smoothed`.

    A certificate is about the two together, so it is valid for any denoiser; it is large where the denoiser was trained
    on the noise. One that was not (a VAE, a denoiser of attacks) proves little.

    Parameters
    ----------
    denoiser
        From noisy images to images: a bundled denoiser or VAE by its name, a network, or a purifier. Noisy images leave
        [0, 1]; a purifier, which refuses that, gets them clipped.
    classifier
        A module, or any callable, from [0, 1] images [N, C, H, W] to logits; it stays as it is.

    Examples
    --------
    >>> denoised = alu.models.Denoised(alu.purifiers.Blur(1.0), classifier)
    >>> labels, radii = alu.models.Smoothed(denoised, sigma=0.1).certify(images, n=50, n0=10)
    """

    def __init__(self, denoiser: Callable[[Tensor], Tensor] | str, classifier: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.denoiser: Callable[[Tensor], Tensor] = load(denoiser) if isinstance(denoiser, str) else denoiser
        self.classifier = classifier
        self.clips = getattr(denoiser, "family", "") == "purifier"

    def forward(self, images: Tensor) -> Any:
        """What the classifier returns for denoised images."""
        noisy = images.clamp(0.0, 1.0) if self.clips else images
        whole = self.denoiser(padded_to(noisy, int(getattr(self.denoiser, "stride", 1))))
        if not isinstance(whole, Tensor) or whole.ndim != 4 or whole.shape[:2] != images.shape[:2]:
            given = list(whole.shape) if isinstance(whole, Tensor) else type(whole).__name__
            raise UsageError(
                f"Denoised needs a denoiser from images {list(images.shape)} to images of that shape; "
                f"{type(self.denoiser).__name__} returned {given}."
            )
        return self.classifier(whole[:, :, : images.shape[2], : images.shape[3]])
