"""transfer: adversarial images of simpler models, at several strengths; a weaker one may stay below the threshold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor

from alu.attacks.adaptive.base import AdaptiveAttack
from alu.attacks.adaptive.view import smoothly_purified
from alu.attacks.autoattack import AutoAttack
from alu.attacks.base import Attack
from alu.attacks.goals import Model, fooled, refuses_by_search
from alu.attacks.gradient import MIM, PGD


class OnAnother(Attack):
    """An attack on `source`, whatever model it is called with.

    Libraries do not change an image that the source answers wrongly from the start, even if the deployed defence is
    right about it; such an image is attacked on `deeper`, a source closer to the deployed defence, if there is one.
    """

    def __init__(self, source: Model, attack: Attack, deeper: Model | None = None) -> None:
        super().__init__(norm=attack.threat.norm, eps=attack.threat.eps, batch_size=attack.batch_size)
        self.source, self.attack, self.deeper = source, attack, deeper

    def run(self, model: Model, images: Tensor, labels: Tensor, numbers: Sequence[int]) -> Tensor:
        """The source's adversarial images."""
        if self.deeper is None:
            return self.attack_source(self.source, images, labels, numbers)
        wrong, adversarial = self.already_wrong(self.source, images, labels), images.clone()
        for source, chosen in ((self.source, ~wrong), (self.deeper, wrong)):
            places = chosen.nonzero().flatten()
            if len(places):
                chosen_numbers = [numbers[place] for place in places.tolist()]
                adversarial[places] = self.attack_source(source, images[places], labels[places], chosen_numbers)
        return adversarial

    def attack_source(self, source: Model, images: Tensor, labels: Tensor, numbers: Sequence[int]) -> Tensor:
        """Adversarial images of one source."""
        adversarial = self.attack(source, images, labels, numbers=numbers)
        self.note(self.attack.flags_)
        return adversarial

    def already_wrong(self, source: Model, images: Tensor, labels: Tensor) -> Tensor:
        """Where the source is wrong before the attack [N]."""
        return fooled(source, images, labels)


class Transfer(AdaptiveAttack):
    """PGD and MIM on f, on f(D(E(x))) and on other models, at several strengths, with all steps and stopped early.

    With budget "full" also AutoAttack. A model without a gradient is skipped.

    Parameters
    ----------
    others
        Further models whose adversarial images may transfer.
    shares
        The strengths, as shares of eps; plus those of `AdaptiveAttack`.

    Examples
    --------
    >>> adversarial = alu.attacks.adaptive.Transfer(steps=1, shares=(1.0,))(defense, images, labels)
    """

    def __init__(
        self, *, others: Sequence[Model] = (), shares: Sequence[float] = (1 / 8, 2 / 8, 4 / 8, 6 / 8, 1.0),
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(**settings)
        self.others, self.shares = tuple(others), tuple(shares)

    def sources(self, defense: Any) -> list[Model]:
        """The models that are attacked; a defence that refuses by a search has no purifier."""
        purified = [] if refuses_by_search(defense) else [smoothly_purified(defense)]
        return [defense.logits, *purified, *self.others]

    def tries(self, defense: Any) -> Iterable[Attack]:
        """Every source at every strength, the full strength first."""
        # An image that stops where it first succeeds lies next to another answer, which a search finds.
        stops = (False,) if refuses_by_search(defense) else (False, True)
        for source in self.sources(defense):
            for settings in self._strengths():
                for stop in stops:
                    yield OnAnother(source, PGD(steps=self.steps, stop_when_fooled=stop, **settings))
                if self.budget != "quick":
                    yield OnAnother(source, MIM(steps=self.steps, **settings))

    def last_tries(self, defense: Any) -> Iterable[Attack]:
        """AutoAttack on every source at every strength."""
        for source in self.sources(defense) if self.budget == "full" else ():
            for settings in self._strengths():
                yield OnAnother(source, AutoAttack(**settings))

    def _strengths(self) -> list[dict[str, Any]]:
        """The common settings once for each strength, the full one first."""
        return [{**self.common, "eps": share * self.eps} for share in sorted(self.shares, reverse=True)]
