"""Objectives of networks that know what images look like: a denoiser for scores, and an energy."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from alu.attacks import PGD
from alu.errors import UsageError
from alu.models.energy import Energy, langevin
from alu.models.score import LEVELS
from alu.purifiers import LongRun
from alu.rng import generator
from alu.training.batches import Batch
from alu.training.objectives import Objective
from alu.training.purified import frozen, identity


class ScoreMatching(Objective):
    """Denoising score matching at many noise levels, even in their logarithm (Vincent 2011; Song & Ermon 2019).

    The mean squared error of the estimated noise, divided by its level; a share `untold` of each batch is not told
    the level, as ADP does not tell it.
    """

    better = "lower"

    def __init__(
        self, lowest: float = LEVELS[0], highest: float = LEVELS[1], untold: float = 0.25, measured_on: int = 500
    ) -> None:
        self.lowest, self.highest, self.untold, self.measured_on = lowest, highest, untold, measured_on

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Mean over the images, those that are not told their level first."""
        share = 0.5 * (batch.draws.uniform(torch.empty(len(batch.images), device=batch.images.device)) + 1.0)
        level = self.lowest * (self.highest / self.lowest) ** share
        noise = batch.draws.normal(batch.images)
        noisy = batch.images + level[:, None, None, None] * noise
        some = int(self.untold * len(noisy))
        blind, told = _error(model, noisy, noise, level, slice(0, some)), slice(some, None)
        error = torch.cat([blind, _error(model, noisy, noise, level, told, told=True)])
        parts = {"told": error[some:].mean()} | ({"untold": blind.mean()} if some else {})
        return error.mean(), parts

    def measure(self, model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """The error of the estimated noise over five levels: told, which decides, and not told."""
        errors: dict[str, list[Tensor]] = {"told": [], "untold": []}
        for number in range(5):
            level = self.lowest * (self.highest / self.lowest) ** (number / 4)
            levels = torch.full((len(images),), level, device=images.device)
            noise = torch.empty(images.shape).normal_(generator=generator(0, "held-out noise", number)).to(images)
            noisy = images + level * noise
            for name, found in errors.items():
                found.append(_error(model, noisy, noise, levels, slice(None), told=name == "told"))
        return {name: torch.stack(found).mean(0) for name, found in errors.items()}


def _error(model: nn.Module, noisy: Tensor, noise: Tensor, level: Tensor, rows: slice, *, told: bool = False) -> Tensor:
    """Mean squared error of the noise that a denoiser takes away, in units of its level, for some rows [n]."""
    noisy, noise, level = noisy[rows], noise[rows], level[rows]
    if not len(noisy):
        return level
    taken: Tensor = noisy - model.denoise(noisy, level if told else None)  # type: ignore[operator]
    return (taken / level[:, None, None, None] - noise).square().flatten(1).mean(1)


class EnergyLearning(Objective):
    """Maximum likelihood of an energy: lower on images, higher on what Langevin dynamics makes of a bank (Hill et al.
    2021, after Nijkamp et al. 2020).

    A batch of the bank's images is moved by `steps` Langevin steps and kept. The bank starts with training images, and
    a share `fresh` of what is moved is replaced by images of the batch first. `bound` · the mean square of the
    network's own output holds energies together. Images carry noise of one Langevin step, so that both sides do.
    """

    def __init__(
        self, classifier: nn.Module, steps: int = 20, fresh: float = 0.05, bound: float = 0.01, measured_on: int = 200
    ) -> None:
        self.classifier = frozen(classifier)
        self.steps, self.fresh, self.bound, self.measured_on = steps, fresh, bound, measured_on

    def prepare(self, device: torch.device) -> None:
        """Move the classifier to the device."""
        self.classifier.to(device)

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The difference of the mean energies, in units of the network's output, and the bound."""
        assert isinstance(model, Energy)
        unit = 0.5 * model.step**2
        images = batch.images + model.step * batch.draws.normal(batch.images)
        chains = self.moved(model, batch)
        low, high = (unit * model(seen) for seen in (images, chains))
        bound = self.bound * (low.square().mean() + high.square().mean())
        gap = low.mean() - high.mean()
        return gap + bound, {"energy": low.mean() / unit, "gap": gap / unit}

    def moved(self, model: Energy, batch: Batch) -> Tensor:
        """A batch of the bank after its Langevin steps; it goes back into the bank."""
        draws, count = batch.draws, len(batch.images)
        if len(model.bank) < draws.total:
            raise UsageError(
                f"The energy's bank holds {len(model.bank)} images, fewer than a batch of {draws.total}. Train it with "
                f"a smaller batch: --set batch_size={max(1, len(model.bank))}."
            )
        rows = torch.randperm(len(model.bank), generator=draws.stream)[: draws.total][draws.rows]
        at = model.bank[rows].to(batch.images)
        replaced = draws.uniform(torch.empty(count, device=at.device)) < 2.0 * self.fresh - 1.0
        at = torch.where(replaced[:, None, None, None], batch.images, at)
        for _ in range(self.steps):
            at = langevin(model, at, draws.normal(at), model.step)
        with torch.no_grad():
            model.bank[rows.to(model.bank.device)] = at.to(model.bank)
        return at.detach()

    def measure(self, model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Accuracy of the classifier after Langevin steps on its PGD-20 images, which decides, and on clean ones."""
        assert isinstance(model, Energy)
        purifier = LongRun(model, step_size=model.step, draws=1)
        with torch.enable_grad():
            attacked = PGD(eps=8 / 255, steps=20)(self.classifier, images, labels)
        return {
            "purified_accuracy": (self.classifier(purifier(attacked)).argmax(1) == labels).float(),
            "accuracy": (self.classifier(purifier(images)).argmax(1) == labels).float(),
        }

    def as_json(self) -> dict[str, Any]:
        """Plain values; the classifier by name or hash."""
        return {**super().as_json(), "classifier": identity(self.classifier)}
