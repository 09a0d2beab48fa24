"""How long work reports its progress, and how many images it takes at once."""

from __future__ import annotations

from collections.abc import Callable

Count = Callable[[int, int], None]
"""Called with (done, in all) by work that has one stage."""
Watch = Callable[[str, int, int], None]
"""Called with (stage, done, in all) by work that has several."""

LARGEST = 64 * 64
"""Pixels of an image up to which a whole batch is worked on at once."""


def silent(*_: object) -> None:
    """Report nothing."""


def at_once(shape: tuple[int, ...], most: int) -> int:
    """`most` images of this shape (channels, height, width), fewer where they are large: memory stays the same."""
    _, height, width = shape
    return max(1, min(most, most * LARGEST // (height * width)))
