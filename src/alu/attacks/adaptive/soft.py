"""soft: APGD on a smooth version of the whole decision, both branches at equal scale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from alu.attacks.adaptive.base import AdaptiveAttack
from alu.attacks.adaptive.transfer import OnAnother
from alu.attacks.adaptive.view import Level, View, score_matters
from alu.attacks.base import Attack
from alu.attacks.copies import redrawn
from alu.attacks.gradient import CWLinf

SCALE = 5.0
"""Standard deviation of the soft logits of one image: neither flat nor saturated for a cross-entropy."""


class SoftOutput(nn.Module):
    """g * Δ/c_Δ + (1 - g) * Π/c_Π with g = sigmoid((s - τ) / (temperature * τ)); c are each image's own deviations.

    Under "purified" g is 0. Under "abstain" a flagged image is not answered, so that nothing is won: the first branch
    says `label`, the true class of all images of a call; without it, nothing.
    """

    def __init__(self, defense: Any, level: Level, temperature: float) -> None:
        super().__init__()
        self.view, self.level, self.temperature = View(defense, level, "Soft"), level, temperature
        self.label: int | None = None
        self.classes = 0
        """How many the last call saw."""
        self.anchor = nn.Parameter(torch.zeros(()), requires_grad=False)

    def redrawn(self, draw: int) -> SoftOutput:
        """The soft output of the same defence with other random numbers."""
        made = SoftOutput(redrawn(self.view.defense, draw), self.level, self.temperature)
        made.label = self.label
        return made

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
        if rule == "alu":
            # A twin without steps changes nothing: what float noise is left must not drown the other branch.
            least = 0.01 * seen.post_logits.detach().std(1, keepdim=True)
            return (1 - gate) * after + gate * standard(seen.change, least)
        resisted = torch.zeros_like(after)
        if self.label is not None:
            resisted[:, self.label] = SCALE
        return (1 - gate) * after + gate * resisted


def standard(logits: Tensor, least: Tensor | float = 1e-6) -> Tensor:
    """Logits of one image, centred and brought to the common scale, which is not differentiated; deviations below
    `least` are not blown up."""
    centred = logits - logits.mean(1, keepdim=True)
    floor = torch.as_tensor(least, device=logits.device, dtype=logits.dtype).clamp_min(1e-6)
    return SCALE * centred / torch.maximum(centred.detach().std(1, keepdim=True), floor)


class OnSoft(OnAnother):
    """An attack on a soft output; under "abstain" class by class, because the output must know what is right."""

    def made(self, source: Any, images: Tensor, labels: Tensor, numbers: Sequence[int]) -> Tensor:
        """The soft output's adversarial images."""
        found = images.clone()
        for places in self._told(source, labels):
            named = [numbers[place] for place in places.tolist()]
            found[places] = super().made(source, images[places], labels[places], named)
        return found

    def idle(self, source: Any, images: Tensor, labels: Tensor) -> Tensor:
        """Where the soft output is wrong before anything is done."""
        found = torch.zeros(len(images), dtype=torch.bool, device=images.device)
        for places in self._told(source, labels):
            found[places] = super().idle(source, images[places], labels[places])
        return found

    @staticmethod
    def _told(source: SoftOutput, labels: Tensor) -> Iterable[Tensor]:
        """Positions to attack together; the output is told their label while they are."""
        if source.view.twin.rule != "abstain":
            yield torch.arange(len(labels), device=labels.device)
            return
        for label in sorted(set(labels.tolist())):
            source.label = int(label)
            yield (labels == label).nonzero().flatten()
        source.label = None


class Soft(AdaptiveAttack):
    """Margin PGD and APGD-CE on the soft output, at several temperatures; but for budget "quick" also APGD on the
    difference of logits ratio, a margin, and targeted APGD, and at the end all of AutoAttack on the cheapest output:
    what a bare classifier has to face, a defence has to face too.

    APGD and AutoAttack come from the extra `attacks`; the margin search is our own.
    """

    def __init__(self, *, temperatures: Sequence[float] = (0.05, 0.25, 1.0), **settings: Any) -> None:
        super().__init__(**settings)
        self.temperatures = tuple(temperatures)

    def tries(self, defense: Any) -> Iterable[Attack]:
        """Every temperature at each level, the search that needs nothing else first."""
        from alu.attacks.autoattack import APGDCE, APGDDLR, APGDT, DLR_CLASSES

        same = {**self.common, "draws": self.drawn}
        temperatures = self.temperatures if score_matters(defense) else self.temperatures[:1]
        for level in self.chosen_levels(defense):
            outputs = [SoftOutput(defense, level, temperature) for temperature in temperatures]
            deeper = [soft_as_deployed(defense, level, temperature) for temperature in temperatures]
            for output, other in zip(outputs, deeper, strict=True):
                yield OnSoft(output, CWLinf(steps=self.steps, **same))
                yield OnSoft(output, APGDCE(steps=2 * self.steps, **same), other)
            for output, other in zip(outputs, deeper, strict=True) if self.budget != "quick" else ():
                if output.classes >= DLR_CLASSES["apgd-dlr"]:
                    yield OnSoft(output, APGDDLR(steps=2 * self.steps, **same), other)
                if output.classes >= DLR_CLASSES["apgd-t"]:
                    yield OnSoft(output, APGDT(steps=self.steps, targets=3, **same), other)

    def last_tries(self, defense: Any) -> Iterable[Attack]:
        """AutoAttack at the first level and the middle temperature."""
        from alu.attacks.autoattack import AutoAttack

        if self.budget != "quick":
            middle, least = self.temperatures[len(self.temperatures) // 2], min(self.temperatures)
            first = self.chosen_levels(defense)[0]
            # Where the middle one is wrong to begin with, the sharpest one is nearer to the deployed answer.
            sharp = soft_as_deployed(defense, first, least) or SoftOutput(defense, first, least)
            version = "rand" if self.drawn > 1 else "standard"
            yield OnSoft(SoftOutput(defense, first, middle), AutoAttack(version=version, **self.common), sharp)


def soft_as_deployed(defense: Any, level: Level, temperature: float) -> SoftOutput | None:
    """The soft output of all the steps that are deployed, where `level` has fewer."""
    if level.steps is None or level.steps >= int(getattr(defense.purifier, "steps", 0)):
        return None
    mode = "surrogate" if level.grad_mode == "unrolled" else level.grad_mode
    return SoftOutput(defense, Level(mode, None), temperature)
