"""Certificate: answer only where a smoothed classifier proves that its answer holds within a radius."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from alu.decision import Evidence
from alu.detectors.base import Detector
from alu.errors import UsageError
from alu.models.smoothed import Smoothed
from alu.purifiers.base import Traits

ROUNDING = 1e-6
"""A radius is compared after it was stored in float32."""


class Certificate(Detector):
    """Flags an image unless the smoothed classifier proves its answer within `radius` (L2). For rule "abstain".

    What is answered and right on clean images is then never answered wrongly within twice the radius, except with
    probability `alpha` for each image: a wrong answer and the right one, both with nothing else around them, cannot
    lie closer. There is no threshold to calibrate, and nothing to attack.

    Parameters
    ----------
    radius
        The L2 radius that must be proven.
    n, n0, alpha
        As in `alu.models.Smoothed.certify`.

    Examples
    --------
    >>> smoothed = alu.models.Smoothed(classifier, sigma=0.25)
    >>> detector = alu.detectors.Certificate(radius=0.1, n=100, n0=10)
    >>> defense = alu.Defense(smoothed, detector=detector, rule="abstain")
    """

    around = "L2"

    def __init__(self, radius: float = 0.25, n: int = 10_000, n0: int = 100, alpha: float = 0.001) -> None:
        super().__init__()
        if not radius > 0.0:
            raise UsageError(f"Certificate needs a radius above 0; it was given {radius}.")
        self.radius, self.n, self.n0, self.alpha = radius, n, n0, alpha

    @property
    def traits(self) -> Traits:
        """Random: the samples are."""
        return Traits(stochastic=True, detector=True)

    @property
    def fixed(self) -> float:
        """Minus the radius that must be proven."""
        return -self.radius + ROUNDING

    def score(self, evidence: Evidence) -> Tensor:
        """Minus the radius that was proven for the answer [N]; 0 where none was."""
        classifier: Any = evidence.classifier
        if not isinstance(classifier, Smoothed):
            raise UsageError(
                f"Certificate needs a smoothed classifier, and {type(classifier).__name__} is none. Pass "
                "alu.models.Smoothed(classifier, sigma=...)."
            )
        found = classifier.certify(
            evidence.purified.detach(), n=self.n, n0=self.n0, alpha=self.alpha, radius=self.radius
        )
        same = found.labels == evidence.post_logits.argmax(1)
        return torch.where(same, -found.radii, 0.0).to(evidence.post_logits)

    def p_values(self, evidence: Evidence, scores: Tensor) -> Tensor:
        """NaN: a certificate has an error probability of its own, `alpha`."""
        return torch.full((len(scores),), math.nan, dtype=torch.float64, device=scores.device)
