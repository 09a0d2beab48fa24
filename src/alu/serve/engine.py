"""Engine: what the service needs of a defence. NumPy in, NumPy out, whatever computes in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from alu.decoding import Pixels


@dataclass(frozen=True)
class Answers:
    """Decisions on a batch, one row per picture; the fields of `alu.Decision` as NumPy arrays.

    Parameters
    ----------
    label, accepted, flagged
        The class, False where there is no answer, and whether the detector flags the picture [N].
    state
        One word per picture: "clean", "suspicious", "attacked" or "corrupted".
    score, p_value
        float64 [N]; NaN where the defence has none.
    pre_logits, post_logits
        float32 [N, classes].
    purified
        Purified pictures in [0, 1], float32 [N, C, H, W]; None if they were not asked for.
    """

    label: NDArray[np.int64]
    accepted: NDArray[np.bool_]
    flagged: NDArray[np.bool_]
    state: Sequence[str]
    score: NDArray[np.float64]
    p_value: NDArray[np.float64]
    pre_logits: NDArray[np.float32]
    post_logits: NDArray[np.float32]
    purified: NDArray[np.float32] | None = None


class Engine(Protocol):
    """A defence that is ready to answer. Its methods are called from one thread, the one that made it."""

    name: str
    """What the user called it."""
    shape: tuple[int, int, int]
    """Channels, height and width of the pictures it reads."""
    classes: tuple[str, ...]
    """Names of the classes; empty if they are not known."""
    model: str
    """SHA-256 of weights and settings."""
    calibration: str
    """SHA-256 of what was learned from clean pictures."""
    clean_scores: NDArray[np.float64] | None
    """Scores of clean pictures, for the monitor; None if it has none."""
    without_scores: str
    """Why there are no clean scores, a sentence; empty if there are."""
    facts: dict[str, Any]
    """Rule, detector, false-alarm rate and other settings, as plain values."""
    can_purify: bool
    """Whether purified pictures can be shown."""

    def decide(self, pixels: Pixels, purified: bool = False) -> Answers:
        """Answer for uint8 pictures [N, C, H, W]."""
