"""soft: APGD on a smooth version of the whole decision, with Δ and Π at equal scale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from alu.attacks.adaptive.base import AdaptiveAttack
from alu.attacks.adaptive.transfer import OnAnother
from alu.attacks.adaptive.view import Level, View, require_evidence, score_matters
from alu.attacks.autoattack import APGDCE, APGDDLR, APGDT, DLR_CLASSES, AutoAttack, Version
from alu.attacks.base import Attack
from alu.attacks.copies import redrawn
from alu.attacks.gradient import CWLinf
from alu.decision import Evidence

SCALE = 5.0
"""Standard deviation of the soft logits of one image: the cross-entropy is then neither flat nor saturated."""


class SoftOutput(nn.Module):
    """A smooth version of the decision: g * Δ/c_Δ + (1 - g) * Π/c_Π with g = sigmoid((s - τ) / (temperature * τ)).

    c_Δ and c_Π are the standard deviations within each image. Under "purified" g is 0. Under "abstain" a flagged image
    is a failure of the attack: in place of Δ/c_Δ stand logits for `label`, the true class of all images of a call, if
    that is set. Under "graded" Π'/c_Π' is a third part, and every test of the defence has such a switch.

    Parameters
    ----------
    defense, level
        The defence, and how its gradient is computed.
    temperature
        How smooth the switches are.

    Examples
    --------
    >>> logits = alu.attacks.adaptive.SoftOutput(defense, alu.attacks.adaptive.Level(), temperature=0.25)(images)
    """

    def __init__(self, defense: Any, level: Level, temperature: float) -> None:
        super().__init__()
        require_evidence(defense, "Soft")
        self.view, self.level, self.temperature = View(defense, level), level, temperature
        self.label: int | None = None
        self.classes = 0
        """The number of classes in the last call."""
        self.anchor = nn.Parameter(torch.zeros(()), requires_grad=False)

    def redrawn(self, draw: int) -> SoftOutput:
        """The soft output of the same defence with other random numbers."""
        copied = SoftOutput(redrawn(self.view.defense, draw), self.level, self.temperature)
        copied.label = self.label
        return copied

    def forward(self, images: Tensor) -> Tensor:
        """Soft logits [N, classes]."""
        evidence = self.view.evidence(images)
        after = standard(evidence.post_logits)
        self.classes = after.shape[1]
        rule = self.view.twin.rule
        if rule == "purified":
            return after
        gate = self._switch(evidence).to(after)
        if rule != "abstain":
            # In a twin without steps Δ is only rounding noise, which must not be scaled up to the size of Π.
            least = 0.01 * evidence.post_logits.detach().std(1, keepdim=True)
            change = standard(evidence.change, least)
            if not self.view.grades:
                return (1 - gate) * after + gate * change
            before = standard(evidence.pre_logits)
            nearly = self._switch(evidence, self.view.suspicious).to(after)
            corrupted = torch.sigmoid(self.view.corruption(evidence) / self.temperature).to(after)
            noisy, specked = corrupted[:, :1], corrupted[:, 1:]
            answer = (1 - gate) * ((1 - nearly) * before + nearly * after) + gate * change
            return (1 - noisy) * ((1 - specked) * answer + specked * before) + noisy * after
        resisted = torch.zeros_like(after)
        if self.label is not None:
            resisted[:, self.label] = SCALE
        return (1 - gate) * after + gate * resisted

    def _switch(self, evidence: Evidence, rate: float | None = None) -> Tensor:
        """From 0 where the score is far below its threshold, or that of another `rate`, to 1 where it is far above
        [N, 1]."""
        unit = self.temperature * self.view.threshold_size(evidence, rate)
        return torch.sigmoid(self.view.excess(evidence, rate) / unit)[:, None]


def standard(logits: Tensor, least: Tensor | float = 1e-6) -> Tensor:
    """The logits of each image, centred and divided by their standard deviation, but by no less than `least`; the
    divisor is not differentiated."""
    centred = logits - logits.mean(1, keepdim=True)
    floor = torch.as_tensor(least, device=logits.device, dtype=logits.dtype).clamp_min(1e-6)
    return SCALE * centred / torch.maximum(centred.detach().std(1, keepdim=True), floor)


class OnSoft(OnAnother):
    """An attack on a soft output; under "abstain" class by class, because the output needs the true label."""

    def attack_source(self, source: Any, images: Tensor, labels: Tensor, numbers: Sequence[int]) -> Tensor:
        """Adversarial images of the soft output."""
        adversarial = images.clone()
        for places in self._with_label(source, labels):
            chosen_numbers = [numbers[place] for place in places.tolist()]
            adversarial[places] = super().attack_source(source, images[places], labels[places], chosen_numbers)
        return adversarial

    def already_wrong(self, source: Any, images: Tensor, labels: Tensor) -> Tensor:
        """Where the soft output is wrong before the attack [N]."""
        wrong = torch.zeros(len(images), dtype=torch.bool, device=images.device)
        for places in self._with_label(source, labels):
            wrong[places] = super().already_wrong(source, images[places], labels[places])
        return wrong

    @staticmethod
    def _with_label(source: SoftOutput, labels: Tensor) -> Iterable[Tensor]:
        """Positions of the images to attack together; meanwhile their label is set on the soft output."""
        if source.view.twin.rule != "abstain":
            yield torch.arange(len(labels), device=labels.device)
            return
        for label in sorted(set(labels.tolist())):
            source.label = int(label)
            yield (labels == label).nonzero().flatten()
        source.label = None


class Soft(AdaptiveAttack):
    """Margin PGD and APGD-CE on the soft output, at several temperatures.

    Unless the budget is "quick", also APGD on the difference of logits ratio, targeted APGD and, at the end, all of
    AutoAttack on the cheapest output: a defence must face what a bare classifier faces. Needs the extra `attacks`.

    Parameters
    ----------
    temperatures
        The temperatures of the soft outputs; plus those of `AdaptiveAttack`.

    Examples
    --------
    >>> adversarial = alu.attacks.adaptive.Soft(steps=1, budget="quick")(defense, images, labels)
    """

    def __init__(self, *, temperatures: Sequence[float] = (0.05, 0.25, 1.0), **settings: Any) -> None:
        super().__init__(**settings)
        self.temperatures = tuple(temperatures)

    def tries(self, defense: Any) -> Iterable[Attack]:
        """Every temperature at each level; margin PGD, which needs no library, first."""
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
        if self.budget != "quick":
            middle, least = self.temperatures[len(self.temperatures) // 2], min(self.temperatures)
            first = self.chosen_levels(defense)[0]
            # For images that the middle one answers wrongly from the start; the sharpest is nearer to what is deployed.
            sharp = soft_as_deployed(defense, first, least) or SoftOutput(defense, first, least)
            version: Version = "rand" if self.drawn > 1 else "standard"
            yield OnSoft(SoftOutput(defense, first, middle), AutoAttack(version=version, **self.common), sharp)


def soft_as_deployed(defense: Any, level: Level, temperature: float) -> SoftOutput | None:
    """The soft output with all deployed steps; None if `level` has them all."""
    if level.steps is None or level.steps >= int(getattr(defense.purifier, "steps", 0)):
        return None
    mode = "surrogate" if level.grad_mode == "unrolled" else level.grad_mode
    return SoftOutput(defense, Level(mode, None), temperature)
