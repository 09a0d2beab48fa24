"""Modules run for inference without leaving a trace: their train/eval modes are put back afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(*modules: object) -> Iterator[None]:
    """Put every module given into eval mode for the length of the block; anything that is no module is passed over."""
    changed = [
        part for module in modules if isinstance(module, nn.Module) for part in module.modules() if part.training
    ]
    for part in changed:
        part.training = False
    try:
        yield
    finally:
        for part in changed:
            part.training = True
