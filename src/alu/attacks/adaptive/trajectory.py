"""trajectory: BPDA averaged over several reconstructions on the way of the latent descent."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from alu.attacks.adaptive.base import AdaptiveAttack, ViewGoal
from alu.attacks.adaptive.view import Level
from alu.attacks.base import Attack
from alu.attacks.copies import shallow
from alu.attacks.goals import gradient_of, margin


def _shorter(purifier: Any, stations: int) -> list[Any]:
    """Copies of the purifier that stop at evenly spaced steps, and the purifier itself last."""
    steps = int(getattr(purifier, "steps", 0))
    shorter = []
    for number in range(1, min(stations, steps)):
        part = shallow(purifier)
        part.steps = round(number * steps / min(stations, steps))
        shorter.append(part)
    return [*shorter, purifier]


class AlongTheWay(ViewGoal):
    """The mean, over stations of the descent, of m(f(D(z_k)), y), plus m(Δ, y) where the rule may answer with Δ, plus
    `drift` times the squared distance of the station from the clean image's reconstruction. A station's gradient
    reaches the image through encoder and decoder (`through`), or unchanged."""

    rows = ("labels", "clean")

    def __init__(
        self, defense: Any, images: Tensor, labels: Tensor, *, stations: int, drift: float, through: bool
    ) -> None:
        super().__init__(defense, images, labels, level=Level("surrogate" if through else "bpda"))
        self.stations, self.drift, self.through = stations, drift, through
        with torch.no_grad():
            self.clean = self._stand_in(images, self._visited(images)[-1])

    def loss(self, images: Tensor) -> Tensor:
        """The value at the deployed end of the descent only."""
        return self._value(images, self._visited(images)[-1:])

    def ascent(self, images: Tensor, who: str) -> tuple[Tensor, Tensor]:
        """The gradient averaged over all stations, and the value."""
        with torch.no_grad():
            visited = self._visited(images)
        value = self._value(images, visited)
        return gradient_of(value.sum(), images, who), value.detach()

    def _visited(self, images: Tensor) -> list[Tensor]:
        purifier = self.view.twin.purifier
        path = getattr(purifier, "trajectory", None)
        with torch.no_grad():
            if path is not None:
                visited: list[Tensor] = path(images.detach(), self.stations)
                return visited
            return [part(images) for part in _shorter(purifier, self.stations)]

    def _stand_in(self, images: Tensor, station: Tensor) -> Tensor:
        """What a station's gradient goes through: D(E(x)) with `through` or if stations are features, else x."""
        if self.through or station.shape != images.shape:
            smooth: Tensor = self.view.twin.purifier.smooth(images)
            return smooth
        return images

    def _value(self, images: Tensor, visited: list[Tensor]) -> Tensor:
        stand_in = self._stand_in(images, visited[-1])
        before = self.view.before(images)
        total = torch.zeros(len(images), device=images.device, dtype=images.dtype)
        for station in visited:
            # The value of the station, with the gradient of the stand-in.
            at = stand_in + (station - stand_in).detach()
            after = self.view.twin.logits(at)
            total = total + margin(after, self.labels)
            if self.view.twin.rule_.uses_flags:
                total = total + margin(after - before, self.labels)
            total = total + self.drift * (at - self.clean).flatten(1).square().sum(1)
        return total / len(visited)


class Trajectory(AdaptiveAttack):
    """BPDA averaged over the latent descent, with and without a term that drives the reconstruction away.

    Parameters
    ----------
    stations
        How many evenly spaced points of the descent the gradient is averaged over; plus those of `AdaptiveAttack`.

    Examples
    --------
    >>> adversarial = alu.attacks.adaptive.Trajectory(steps=1, stations=2)(defense, images, labels)
    """

    def __init__(self, *, stations: int = 4, **settings: Any) -> None:
        super().__init__(**settings)
        self.stations = stations

    def tries(self, defense: Any) -> Iterable[Attack]:
        """Gradients through the VAE and unchanged, each without and with the term."""
        for through in (True, False):
            for drift in (0.0, 0.1):
                make = partial(AlongTheWay, stations=self.stations, drift=drift, through=through)
                yield self.search(make)
