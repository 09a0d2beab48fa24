"""soft: APGD on a smooth version of the whole decision, both branches at equal scale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from alu.attacks.adaptive.base import AdaptiveAttack
from alu.attacks.adaptive.transfer import OnAnother
from alu.attacks.adaptive.view import Level, View
from alu.attacks.base import Attack
from alu.attacks.gradient import CWLinf

SCALE = 5.0
"""Standard deviation of the soft logits of one image: neither flat nor saturated for a cross-entropy."""


class SoftOutput(nn.Module):
    """g * Δ/c_Δ + (1 - g) * Π/c_Π with g = sigmoid((s - τ) / (temperature * τ)); c are each image's own deviations.

    Under "abstain" the first branch is flat, since a flagged image is not answered; under "purified" g is 0.
    """

    def __init__(self, defense: Any, level: Level, temperature: float) -> None:
        super().__init__()
        self.view, self.temperature = View(defense, level, "Soft"), temperature
        self.classes = 0
        """How many the last call saw."""
        self.anchor = nn.Parameter(torch.zeros(()), requires_grad=False)

    def forward(self, images: Tensor) -> Tensor:
        """Soft logits [N, classes]."""
        seen = self.view.evidence(images)
        after = standard(seen.post_logits)
        self.classes = after.shape[1]
        rule = self.view.twin.rule
        if rule == "purified":
            return after
        above = self.view.excess(seen) / (self.temperature * self.view.room(seen))
        gate = torch.sigmoid(above)[:, None].to(after)
        return (1 - gate) * after + (gate * standard(seen.change) if rule == "alu" else 0.0)


def standard(logits: Tensor) -> Tensor:
    """Logits of one image, centred and brought to the common scale; the scale itself is not differentiated."""
    centred = logits - logits.mean(1, keepdim=True)
    return SCALE * centred / centred.detach().std(1, keepdim=True).clamp_min(1e-6)


class Soft(AdaptiveAttack):
    """Margin PGD, APGD-CE and targeted APGD on the soft output, at several temperatures.

    APGD comes from the extra `attacks`; the margin search is our own.
    """

    def __init__(self, *, temperatures: Sequence[float] = (0.05, 0.25, 1.0), **settings: Any) -> None:
        super().__init__(**settings)
        self.temperatures = tuple(temperatures)

    def tries(self, defense: Any) -> Iterable[Attack]:
        """Every temperature at each level, the search that needs nothing else first."""
        from alu.attacks.autoattack import APGDCE, APGDT

        same: dict[str, Any] = {
            "norm": self.threat.norm, "eps": self.threat.eps, "seed": self.seed, "batch_size": self.batch_size,
        }  # fmt: skip
        for level in self.chosen_levels(defense):
            outputs = [SoftOutput(defense, level, temperature) for temperature in self.temperatures]
            for output in outputs:
                yield OnAnother(output, CWLinf(steps=self.steps, **same))
                yield OnAnother(output, APGDCE(steps=2 * self.steps, **same))
            if self.budget != "quick" and outputs[0].classes >= 4:  # its loss compares four logits
                yield OnAnother(outputs[0], APGDT(steps=self.steps, targets=3, **same))
