"""transfer: images made for something simpler than the defence, at several strengths; a weaker one may hide better."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor

from alu.attacks.adaptive.base import AdaptiveAttack
from alu.attacks.adaptive.view import smoothly_purified
from alu.attacks.base import Attack
from alu.attacks.goals import Model, fooled
from alu.attacks.gradient import MIM, PGD


class OnAnother(Attack):
    """An attack that is made on `source`, whatever model it is called with.

    Libraries do not touch an image that the source gets wrong to begin with, though what is deployed may be right about
    it; such an image is attacked on `deeper`, a source closer to what is deployed, where there is one.
    """

    def __init__(self, source: Model, attack: Attack, deeper: Model | None = None) -> None:
        super().__init__(norm=attack.threat.norm, eps=attack.threat.eps, batch_size=attack.batch_size)
        self.source, self.attack, self.deeper = source, attack, deeper

    def run(self, model: Model, images: Tensor, labels: Tensor, numbers: Sequence[int]) -> Tensor:
        """The source's adversarial images."""
        if self.deeper is None:
            return self.made(self.source, images, labels, numbers)
        idle, found = self.idle(self.source, images, labels), images.clone()
        for source, chosen in ((self.source, ~idle), (self.deeper, idle)):
            places = chosen.nonzero().flatten()
            if len(places):
                named = [numbers[place] for place in places.tolist()]
                found[places] = self.made(source, images[places], labels[places], named)
        return found

    def made(self, source: Model, images: Tensor, labels: Tensor, numbers: Sequence[int]) -> Tensor:
        """Adversarial images of one source."""
        found = self.attack(source, images, labels, numbers=numbers)
        self.note(self.attack.flags_)
        return found

    def idle(self, source: Model, images: Tensor, labels: Tensor) -> Tensor:
        """Where the source is wrong before anything is done [N]."""
        return fooled(source, images, labels)


class Transfer(AdaptiveAttack):
    """PGD and MIM on f, on f(D(E(x))) and on `others`, at each of `shares` of eps, with all steps and stopped early.

    `others` are further models whose images may carry over. AutoAttack on each of them, at each strength, joins with
    budget "full". A source that has no gradient is passed over.
    """

    def __init__(
        self,
        *,
        others: Sequence[Model] = (),
        shares: Sequence[float] = (1 / 8, 2 / 8, 4 / 8, 6 / 8, 1.0),
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.others, self.shares = tuple(others), tuple(shares)

    def sources(self, defense: Any) -> list[Model]:
        """What the images are made on."""
        return [defense.logits, smoothly_purified(defense), *self.others]

    def tries(self, defense: Any) -> Iterable[Attack]:
        """Every source at every strength, the full strength first."""
        same: dict[str, Any] = {"norm": self.threat.norm, "seed": self.seed, "batch_size": self.batch_size}
        for source in self.sources(defense):
            for share in sorted(self.shares, reverse=True):
                eps = share * self.threat.eps
                for stop in (False, True):
                    yield OnAnother(source, PGD(eps=eps, steps=self.steps, stop_when_fooled=stop, **same))
                if self.budget != "quick":
                    yield OnAnother(source, MIM(eps=eps, steps=self.steps, **same))

    def last_tries(self, defense: Any) -> Iterable[Attack]:
        """AutoAttack on every source at every strength."""
        from alu.attacks.autoattack import AutoAttack

        for source in self.sources(defense) if self.budget == "full" else ():
            for share in sorted(self.shares, reverse=True):
                yield OnAnother(source, AutoAttack(**{**self.common, "eps": share * self.threat.eps}))
