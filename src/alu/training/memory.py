"""How many images fit into memory at once."""

from __future__ import annotations

LARGEST = 64 * 64
"""Pixels of an image up to which a whole batch is worked on at once."""


def at_once(shape: tuple[int, ...], most: int) -> int:
    """`most` images of this shape (channels, height, width), fewer where they are large: memory stays the same."""
    _, height, width = shape
    return max(1, min(most, most * LARGEST // (height * width)))
