"""trajectory: follow the latent descent. BPDA averaged over several reconstructions on the way, driven astray."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from alu.attacks.adaptive.base import AdaptiveAttack, ViewGoal
from alu.attacks.adaptive.view import Level, View
from alu.attacks.base import Attack
from alu.attacks.copies import shallow
from alu.attacks.goals import gradient_of, margin


def _shorter(purifier: Any, stations: int) -> list[Any]:
    """The purifier stopped at evenly spaced steps, itself last; alone where it makes no steps."""
    steps = int(getattr(purifier, "steps", 0))
    made = []
    for number in range(1, min(stations, steps)):
        part = shallow(purifier)
        part.steps = round(number * steps / min(stations, steps))
        made.append(part)
    return [*made, purifier]


class AlongTheWay(ViewGoal):
    """The mean over stations of the descent of m(f(D(z_k)), y), plus m(Δ, y) under rule "alu", plus `astray` times the
    distance of the stations from the clean image. Each station's gradient is passed to the image unchanged, through the
    encoder and decoder ("surrogate"), or both."""

    def __init__(
        self, defense: Any, images: Tensor, labels: Tensor, *, stations: int, astray: float, through: bool
    ) -> None:
        super().__init__(defense, labels, Level("surrogate" if through else "bpda"), "Trajectory")
        self.stations, self.astray, self.through = stations, astray, through
        with torch.no_grad():
            self.home = self._stand_in(images, self._visited(images)[-1])

    def loss(self, images: Tensor) -> Tensor:
        """The value alone, at the deployed end of the descent."""
        return self._value(self.view, images, self._visited(images)[-1:])

    def ascent(self, images: Tensor, who: str) -> tuple[Tensor, Tensor]:
        """The gradient with every station standing in for the purified image."""
        with torch.no_grad():
            visited = self._visited(images)
        value = self._value(self.view, images, visited)
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
        """What carries a station's gradient: the image itself or, if wished or if stations are no images, D(E(x))."""
        if self.through or station.shape != images.shape:
            smooth: Tensor = self.view.twin.purifier.smooth(images)
            return smooth
        return images

    def _value(self, view: View, images: Tensor, visited: list[Tensor]) -> Tensor:
        stand_in = self._stand_in(images, visited[-1])
        before = view.before(images)
        total = torch.zeros(len(images), device=images.device, dtype=images.dtype)
        for station in visited:
            # Adding a constant puts the station's value in place and leaves the stand-in's gradient.
            at = stand_in + (station - stand_in).detach()
            after = view.twin.logits(at)
            total = total + margin(after, self.labels)
            if view.twin.rule == "alu":
                total = total + margin(after - before, self.labels)
            total = total + self.astray * (at - self.home).flatten(1).square().sum(1)
        return total / len(visited)


class Trajectory(AdaptiveAttack):
    """BPDA over the way to the purified image, with and without the term that drives the reconstruction astray."""

    def __init__(self, *, stations: int = 4, **settings: Any) -> None:
        super().__init__(**settings)
        self.stations = stations

    def tries(self, defense: Any) -> Iterable[Attack]:
        """Gradients passed unchanged and through the VAE, each with and without the term."""
        for through in (True, False):
            for astray in (0.0, 0.1):
                make = partial(AlongTheWay, stations=self.stations, astray=astray, through=through)
                yield self.search(make)
