"""Which arrays are images that may be answered, in torch and in NumPy: the sentences that refuse the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from alu.errors import InputError


def refuse_odd_images(
    who: str, shape: Sequence[int], floating: bool, kind: object, extremes: Callable[[], tuple[float, float]]
) -> None:
    """Refuse anything but floating-point images [N, C, H, W] in [0, 1].

    Parameters
    ----------
    who
        Whoever was given them.
    shape, floating, kind
        The array's shape, whether its numbers are floating-point, and the name of its type.
    extremes
        Gives its smallest and largest value; only asked if there are any.
    """
    if len(shape) != 4:
        raise InputError(f"{who} needs images [N, C, H, W]; these have shape {list(shape)}.")
    if not floating:
        raise InputError(f"{who} needs floating-point images in [0, 1]; these are {kind}. Divide by 255 first.")
    if any(size == 0 for size in shape):
        return
    low, high = extremes()
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InputError(f"{who} was given images with NaN or infinite pixels. Remove or repair them first.")
    if low < -1e-6 or high > 1 + 1e-6:
        advice = "Divide by 255." if high > 2 and low >= 0 else "Move normalisation into the classifier (Normalize)."
        raise InputError(f"{who} needs images in [0, 1]; these run from {low:.4g} to {high:.4g}. {advice}")


def refuse_none(shape: Sequence[int]) -> None:
    """Refuse an empty batch."""
    if shape[0] == 0:
        raise InputError(f"Defense was given no image: the batch has shape {list(shape)}.")


def refuse_other_size(known: Sequence[int], shape: Sequence[int]) -> None:
    """Refuse images of another size than the known one: a threshold is valid only for what it was calibrated on."""
    if known and tuple(shape[1:]) != tuple(known):
        expected, actual = (" x ".join(map(str, size)) for size in (known, shape[1:]))
        raise InputError(
            f"This defence was calibrated on images of {expected} (channels, height, width); these are {actual}. "
            "Scale the images, or calibrate again on images of this size."
        )
