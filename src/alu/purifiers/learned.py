"""Learned steps: what `LatentVAE` does with solver="learned", in place of steps that follow a gradient at test time.

A network of `alu.models.amortised` gives a code by an encoder that was fitted to its frozen decoder, and corrects it by
small networks that see what the code leaves of the image. All of it is one ordinary network: its gradient is exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, cast

from torch import Tensor, nn

from alu.errors import UsageError
from alu.models.cards import load, names

SUFFIX = "-learned"
"""What the name of a bundled VAE's network with learned steps ends in."""


class Learned(Protocol):
    """A VAE with learned steps."""

    corrections: nn.ModuleList
    """One network for each step."""

    def walk(self, images: Tensor, steps: int) -> tuple[list[Tensor], list[Tensor]]:
        """The fitted code of the images and those after 1 to `steps` corrections, and the outputs of all but the last;
        differentiable."""
        ...


def load_learned(name: str) -> nn.Module:
    """The bundled network of this name or, where that is a VAE without learned steps, the one that has them."""
    other = name + SUFFIX
    if name.endswith(SUFFIX) or (name in names() and other in names()):
        return load(name if name.endswith(SUFFIX) else other)
    if name in names("vae"):
        raise UsageError(
            f"The bundled VAE {name} has no learned steps yet. Train them: alu train {other}, then give the network in "
            f"its folder: LatentVAE(alu.models.load_file('runs/{other}/model.safetensors'), solver='learned')."
        )
    return load(name)


def learned_steps(vae: nn.Module, steps: int | None, settings: Mapping[str, tuple[Any, Any]], who: str) -> int:
    """How many learned steps to make, by default all that were trained; `settings` are those of steps that follow a
    gradient, each with its usual value: nothing else fits steps that are learned already."""
    if not callable(getattr(vae, "walk", None)):
        raise UsageError(
            f"solver='learned' needs a VAE with learned steps; {type(vae).__name__} has none. alu.models.amortised "
            "builds one, alu fit --solver learned trains one; or use solver='adam'."
        )
    for name, (value, usual) in settings.items():
        if value != usual:
            raise UsageError(
                f"{who} with solver='learned' takes no {name}; it was given {value!r}. Leave it out, or use "
                "solver='adam'."
            )
    trained = len(cast(Learned, vae).corrections)
    if steps is not None and not 0 <= steps <= trained:
        raise UsageError(
            f"{who} needs steps from 0 to {trained}, which is how many were trained; it was given {steps}. Leave it "
            "out for all of them."
        )
    return trained if steps is None else steps
