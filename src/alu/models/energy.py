"""An energy-based model: a number for each image, low where images are likely; what Langevin purifiers descend."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from alu.models.architecture import architecture, rebuild


class Energy(nn.Module):
    """The energy U(x) of each image at temperature 1: images have density proportional to exp(-U).

    The network's own output is U times half the square of `step`, the size of a Langevin step, so that its gradient is
    the move of one step. There is no normalisation layer, and SiLU makes it smooth. `bank` are images that training
    keeps moving; they travel with checkpoints, not with published weights.
    """

    stride = 8
    bank: Tensor

    def __init__(self, channels: int, width: int, step: float, bank: int, size: int) -> None:
        super().__init__()
        self.channels, self.step = channels, step
        self.layers = nn.Sequential(
            nn.PixelUnshuffle(2),
            nn.Conv2d(4 * channels, width, 3, 1, 1), nn.SiLU(),
            nn.Conv2d(width, width, 3, 1, 1), nn.SiLU(),
            nn.Conv2d(width, 2 * width, 4, 2, 1), nn.SiLU(),
            nn.Conv2d(2 * width, 4 * width, 4, 2, 1), nn.SiLU(),
            nn.Conv2d(4 * width, 4 * width, 3, 1, 1), nn.SiLU(),
        )  # fmt: skip
        self.last = nn.Linear(4 * width, 1)
        self.register_buffer("bank", torch.zeros(bank, channels, size, size))

    def forward(self, images: Tensor) -> Tensor:
        """The energy of each image [N]."""
        features = self.layers(4.0 * (images - 0.5))
        return self.last(features.mean((2, 3))).squeeze(1) / (0.5 * self.step**2)  # type: ignore[no-any-return]

    def published(self) -> Energy:
        """The same network without its bank."""
        facts: Any = self.architecture
        network = rebuild({**facts, "bank": 0})
        assert isinstance(network, Energy)
        kept = {name: value for name, value in self.state_dict().items() if name != "bank"}
        network.load_state_dict({**network.state_dict(), **kept})
        return network


def slope(energy: nn.Module, images: Tensor, *, graph: bool = False) -> Tensor:
    """The gradient of any energy [N] at the images; no parameter's gradient is touched."""
    with torch.enable_grad():
        at = images if graph and images.requires_grad else images.detach().requires_grad_(True)
        (gradient,) = torch.autograd.grad(energy(at).sum(), at, create_graph=graph)
    return gradient if graph else gradient.detach()


def langevin(energy: nn.Module, images: Tensor, noise: Tensor, step: float, *, graph: bool = False) -> Tensor:
    """One step of Langevin dynamics at temperature 1: x - step²/2 ∇U(x) + step z, with z the noise."""
    return images - 0.5 * step**2 * slope(energy, images, graph=graph) + step * noise


@architecture
def energy(channels: int = 3, width: int = 40, step: float = 0.01, bank: int = 0, size: int = 32) -> Energy:
    """The bundled energy's architecture, for images whose height and width are divisible by 8.

    Parameters
    ----------
    channels, width
        Channels of the images, and of the layers at half resolution: 40 costs 15 M multiply-adds at 32 pixels.
    step
        The size of the Langevin steps that it is trained and used with.
    bank, size
        How many images training keeps moving, and their height and width.

    Examples
    --------
    >>> alu.models.energy(width=8)(images).shape
    torch.Size([4])
    """
    return Energy(channels, width, step, bank, size)
