"""Several purifiers, one after another."""

from __future__ import annotations

from functools import reduce
from typing import Any, Self

import torch
from torch import Tensor, nn

from alu.errors import UsageError
from alu.purifiers.base import GradMode, Purification, Purifier, Traits


class Chain(Purifier):
    """Several purifiers, applied one after another.

    Parameters
    ----------
    *purifiers
        In the order they are applied; the last one decides whether there is a reconstruction.

    Examples
    --------
    >>> purified = alu.purifiers.Chain(alu.purifiers.Median(3), alu.purifiers.Blur(0.5))(images)
    """

    def __init__(self, *purifiers: Purifier) -> None:
        super().__init__()
        if not purifiers:
            raise UsageError("Chain needs at least one purifier.")
        self.purifiers = nn.ModuleList(purifiers)

    @property
    def parts(self) -> list[Purifier]:
        """The purifiers, first to last."""
        return [part for part in self.purifiers if isinstance(part, Purifier)]

    @property
    def traits(self) -> Traits:
        """Of each trait the value that is hardest to attack."""
        return reduce(Traits.joined, (part.traits for part in self.parts))

    @property
    def has_reconstruction(self) -> bool:
        """Whether the last part has one."""
        return self.parts[-1].has_reconstruction

    def run(self, images: Tensor) -> Tensor:
        """Images after every part."""
        return self._exact(images, False).purified

    def differentiated(self, images: Tensor, grad_mode: GradMode, reconstruct: bool) -> Purification:
        """The parts' own gradients, joined by the chain rule."""
        for part in self.parts[:-1]:
            images = part(images, grad_mode)
        return self.parts[-1].purify(images, grad_mode, reconstruct=reconstruct)

    def reconstruct(self, images: Tensor) -> Tensor:
        """The last part's reconstruction of what reaches it."""
        for part in self.parts[:-1]:
            images = part(images, "surrogate")
        return self.parts[-1].reconstruct(images)

    def _exact(self, images: Tensor, reconstruct: bool) -> Purification:
        with torch.no_grad():
            return self.differentiated(images, "blind", reconstruct)

    def description(self) -> dict[str, Any]:
        """The descriptions of its parts."""
        return {"name": "Chain", "purifiers": [part.description() for part in self.parts]}

    @classmethod
    def from_description(cls, settings: dict[str, Any], trust: bool = False) -> Self:
        """The chain of the described parts."""
        return cls(*(Purifier.rebuild(part, trust) for part in settings["purifiers"]))
