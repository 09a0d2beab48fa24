"""LongRun: many steps of Langevin dynamics on a learned energy, and the mean of several chains (Hill et al. 2021)."""

from __future__ import annotations

from torch import Tensor, nn

from alu.errors import UsageError
from alu.models.cards import load
from alu.models.energy import langevin
from alu.purifiers.base import Traits
from alu.purifiers.stepwise import Stepwise
from alu.rng import normal_per_image


class LongRun(Stepwise):
    """Langevin dynamics from the image: `steps` times x - step_size²/2 ∇U(x) + step_size z (Hill et al. 2021).

    A defence averages the logits of all chains.

    Parameters
    ----------
    network
        A module from images to energies [N], or the name of a bundled one; `alu.models.energy` builds one.
    steps, step_size
        How many steps and their size. The authors have 1,500 of 0.005 (0.01 for images in [-1, 1]), which takes a GPU.
    draws
        How many chains start from each image; the authors have 150.
    seed
        The noise depends on the image and on this: the same image gets the same answer, another seed is another draw.

    Examples
    --------
    >>> purified = alu.purifiers.LongRun(alu.models.energy(width=8), steps=2)(images)
    """

    stands_in = False

    def __init__(
        self, network: nn.Module | str = "cifar10-energy", *, steps: int = 100, step_size: float = 0.01,
        draws: int = 4, seed: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(steps)
        if steps < 0 or not step_size > 0 or draws < 1:
            raise UsageError(
                f"LongRun needs steps >= 0, step_size > 0 and at least 1 draw; it was given {steps}, {step_size:g} and "
                f"{draws}."
            )
        self.network = load(network) if isinstance(network, str) else network
        self.step_size, self.draws, self.seed = step_size, draws, seed

    @property
    def traits(self) -> Traits:
        """Random and iterative, with an exact gradient for each chain."""
        return Traits(stochastic=True, iterative=self.steps > 0)

    @property
    def stride(self) -> int:
        """That of the network."""
        return int(getattr(self.network, "stride", 1))

    def step(self, at: Tensor, images: Tensor, number: int) -> Tensor:
        """One Langevin step."""
        noise = normal_per_image(images, tuple(images.shape[1:]), self.seed, "langevin", number)
        return langevin(self.network, at, noise, self.step_size, graph=at.requires_grad)

    def surrogate(self, images: Tensor) -> Tensor:
        """The images themselves."""
        return images
