"""Probabilities as logits: their logarithms, which differ from logits by one constant in each row."""

from __future__ import annotations

import math

from torch import Tensor

from alu.errors import InputError

FLOOR = 1e-12
"""Probabilities below it count as this: the logarithm of 0 is no number."""


def log_of(probabilities: Tensor) -> Tensor:
    """Their natural logarithm [N, classes], in float32; what are no probabilities is refused."""
    rows = probabilities.detach().double()
    low, total = float(rows.min()), float((rows.sum(1) - 1).abs().max())
    if not (math.isfinite(low) and low >= -1e-6 and total < 1e-2):
        raise InputError(
            "These are not probabilities: a row must be at least 0 everywhere and sum to 1. For a classifier that "
            "gives logits, leave out probabilities=True."
        )
    return rows.clamp_min(FLOOR).log().float()
