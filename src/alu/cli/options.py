"""Options that several commands share, written once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from alu.errors import UsageError

if TYPE_CHECKING:
    import torch

Seed = Annotated[int, typer.Option(help="Seed of every random draw.")]
Device = Annotated[str, typer.Option(help="Where to compute: cpu, cuda, cuda:1, mps.")]


def checked_device(device: str) -> torch.device:
    """The device of this name, if it is there and computes."""
    import torch

    try:
        made = torch.device(device)
        # Read back: the device "meta" can be made, but holds no numbers.
        torch.zeros(1, device=made).item()
    except Exception as error:  # each kind of device is missing in its own way
        raise UsageError(f"There is no device {device!r} on this machine. Use --device cpu.") from error
    return made
