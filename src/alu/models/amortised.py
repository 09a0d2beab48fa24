"""A VAE with learned steps: an encoder fitted to its frozen decoder, and networks that correct the code once or twice.

What hundreds of latent steps find by following a gradient is here found by networks that were trained to find it
(iterative amortised inference, Marino et al. 2018): z <- z + R_k(z, x - D(z)).
"""

from __future__ import annotations

import copy

import torch.nn.functional as F
from torch import Tensor, nn

from alu.errors import UsageError
from alu.models.architecture import architecture
from alu.models.vae import VAE, SmoothBlock

UNIT = 1 / 30
"""The size of a usual residual, in which corrections read it."""


class Correction(nn.Module):
    """R_k: what to add to a code, from what its image leaves of the picture.

    It has the shape of the encoder, at full width or less, and reads the residual in place of the image. It also reads
    the code and the features that the decoder had on the way: how the image changes with the code depends on them. At
    first it adds nothing.
    """

    def __init__(self, vae: VAE, width: int) -> None:
        super().__init__()
        inner, half, fold = vae.width, width // 2, vae.stride // 2
        self.fold = fold
        self.residual = nn.Conv2d(fold * fold * vae.channels, half, 3, 1, 1)
        self.late = nn.Conv2d(inner // 2, half, 1)
        self.fine = SmoothBlock(half)
        self.down = nn.Conv2d(4 * half, width, 1)
        self.early = nn.Conv2d(inner, width, 1)
        self.code = nn.Conv2d(vae.latent, width, 3, 1, 1)
        self.coarse = SmoothBlock(width)
        self.last = nn.Conv2d(width, vae.latent, 3, 1, 1)
        for weight in self.last.parameters():
            nn.init.zeros_(weight)

    def forward(self, code: Tensor, residual: Tensor, early: Tensor, late: Tensor) -> Tensor:
        """The change of the code [N, latent, h, w]."""
        seen = self.residual(F.pixel_unshuffle(residual / UNIT, self.fold)) + self.late(late)
        seen = self.down(F.pixel_unshuffle(self.fine(seen), 2)) + self.early(early) + self.code(code)
        change: Tensor = self.last(F.silu(self.coarse(seen)))
        return change


class Amortised(nn.Module):
    """A frozen VAE, whose `encode` and `decode` these are, with an encoder fitted to its decoder and with corrections.

    `walk(images, steps)` is what they find; all that happens on the way is differentiable.
    """

    def __init__(self, channels: int, latent: int, width: int, stride: int, steps: int, breadth: int) -> None:
        super().__init__()
        if steps < 0 or breadth < 2:
            raise UsageError(f"amortised needs steps >= 0 and breadth >= 2; it was given {steps} and {breadth}.")
        self.channels, self.stride = channels, stride
        self.vae = VAE(channels, latent, width, stride).requires_grad_(False)
        self.fitted = copy.deepcopy(self.vae.encoder).requires_grad_(True)
        self.corrections = nn.ModuleList(Correction(self.vae, breadth) for _ in range(steps))

    def encode(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of the code, by the VAE's own encoder."""
        return self.vae.encode(images)

    def decode(self, code: Tensor) -> Tensor:
        """Images of a code."""
        return self.vae.decode(code)

    def walk(self, images: Tensor, steps: int) -> tuple[list[Tensor], list[Tensor]]:
        """The fitted encoder's code and those after 1 to `steps` corrections; and the images of all but the last."""
        codes, outputs = [self.fitted(images - 0.5).chunk(2, dim=1)[0]], []
        for place in range(steps):
            output, early, late = self.vae.decode_with_features(codes[-1])
            codes.append(codes[-1] + self.corrections[place](codes[-1], images - output, early, late))
            outputs.append(output)
        return codes, outputs

    def around(self, vae: nn.Module) -> Amortised:
        """Itself, with the weights of a trained VAE, whose encoder the fitted one starts as."""
        self.vae.load_state_dict(vae.state_dict())
        self.fitted.load_state_dict(self.vae.encoder.state_dict())
        return self

    def forward(self, images: Tensor) -> Tensor:
        """Reconstructions after all corrections."""
        return self.decode(self.walk(images, len(self.corrections))[0][-1])


@architecture
def amortised(
    channels: int = 3, latent: int = 16, width: int = 96, stride: int = 4, steps: int = 1, breadth: int = 128
) -> Amortised:
    """A VAE with learned steps, for `LatentVAE(..., solver="learned")`; `around` puts a trained VAE into it.

    Parameters
    ----------
    channels, latent, width, stride
        Those of the VAE: see `alu.models.vae`.
    steps, breadth
        How many corrections there are, and the channels of their widest layers.

    Examples
    --------
    >>> codes, outputs = alu.models.amortised(latent=2, width=8, breadth=8).walk(images, 1)
    """
    return Amortised(channels, latent, width, stride, steps, breadth)
