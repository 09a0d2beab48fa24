"""What a fitted defence does on held-out images: clean, attacked, changed without harm. A harmful one is refused."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from alu.attacks import PGD
from alu.data.dataset import Dataset
from alu.defense import Classifier, Defense
from alu.errors import AluError, NoGradientError
from alu.evaluation.harmless import counts, harmless_rows
from alu.progress import Count, Watch, at_once
from alu.purifiers import PCA, LatentVAE
from alu.stats import Share
from alu.workers import Desk, Pool, pool_of

CLEAN, ATTACKED, CHANGED = (500, 100), (200, 50), (100, 25)
"""At most and, where pictures are large, at least so many held-out images, if there are as many."""
MOST_LOST = 0.10
"""A defence that loses a larger share of clean answers than this is not saved."""
MOST_LOST_CHANGED = 0.05
"""A moderate harmless change on which it loses more than this is worth a warning."""
LEAST_FLAGGED = 0.05
"""A detector that flags less of an attack than this is worth a warning."""


class HarmfulDefenseError(AluError):
    """A defence takes away more right answers than it may."""


@dataclass(frozen=True)
class Row:
    """Right answers on one kind of images: of the classifier alone, after the purifier, and as deployed; and flags.

    A deployed answer counts as right if it is right and was given.
    """

    images: str
    bare: Share
    purified: Share
    deployed: Share
    flagged: Share
    moderate: bool = True
    """Whether a person would hardly mind the change (not used for attacks)."""

    @property
    def lost(self) -> float:
        """The share of right answers that the defence takes away; below 0 if it adds some."""
        return self.bare.value - self.deployed.value

    @staticmethod
    def of(images: str, found: dict[str, int], moderate: bool = True) -> Row:
        """From the counts of `alu.evaluation.harmless`."""
        names = ("bare", "purified", "right", "flagged")
        bare, purified, deployed, flagged = (Share(found[name], found["n"]) for name in names)
        return Row(images, bare, purified, deployed, flagged, moderate)


@dataclass(frozen=True)
class Fitted:
    """A calibrated defence and what it does on held-out images that nothing was chosen on."""

    defense: Defense
    clean: Row
    attacked: Row | None
    """PGD-20 on the classifier alone, L∞ 8/255: an attacker who does not know the defence."""
    not_attacked: str
    """Why there is no attacked row; empty if there is one."""
    harmless: tuple[Row, ...]
    seconds: float
    why: str = ""
    """Which rule or width was chosen and why, as a sentence; empty where the user named both."""

    @property
    def rows(self) -> tuple[Row, ...]:
        """Everything that was measured."""
        return (self.clean, *([self.attacked] if self.attacked else []), *self.harmless)

    def save(self, path: Path | str, factory: str | None = None, *, force: bool = False) -> None:
        """Save the defence as `Defense.save` does; one that loses too many clean answers only with `force`."""
        if not force:
            self.refuse_harm()
        self.defense.save(path, factory)

    def refuse_harm(self) -> None:
        """Raise `HarmfulDefenseError` if more than 10 points of clean accuracy are lost."""
        if round(self.clean.lost, 9) <= MOST_LOST:
            return
        row = self.clean
        raise HarmfulDefenseError(
            f"This defence loses too many clean answers and is not kept: of {row.bare.n} held-out images the "
            f"classifier alone is right on {100 * row.bare.value:.1f} %, the defence on "
            f"{100 * row.deployed.value:.1f} %. {self._advice()} force=True keeps it all the same."
        )

    def _advice(self) -> str:
        """What to try, from where the answers are lost."""
        row = self.clean
        if row.bare.value - row.purified.value <= row.lost / 2:  # the purified pictures are not what costs answers
            return "It raises too many false alarms: try a smaller false_alarm=, or more calibration pictures."
        if isinstance(self.defense.purifier, LatentVAE):
            return "Try more latent steps=, or a VAE that is trained longer (epochs=) or on more pictures."
        kind = "PCA" if isinstance(self.defense.purifier, PCA) else "This filter"
        return f'{kind} takes too much from these pictures: try purifier="vae", which is trained on them.'

    def concerns(self) -> list[str]:
        """Sentences about what is weak in it."""
        found = []
        if self.attacked is not None and self.attacked.flagged.value < LEAST_FLAGGED:
            flagged, bare, deployed = self.attacked.flagged, self.attacked.bare, self.attacked.deployed
            found.append(
                f"This defence notices almost no attack: it flags {100 * flagged.value:.1f} % of {flagged.n} PGD "
                f"images, on which the classifier alone is right on {100 * bare.value:.1f} % and the defence on "
                f"{100 * deployed.value:.1f} %."
            )
        costly = [row for row in self.harmless if row.moderate and round(row.lost, 9) > MOST_LOST_CHANGED]
        if costly:
            worst = max(costly, key=lambda row: row.lost)
            more = f" Changes that cost more than 5 points: {len(costly)}." if len(costly) > 1 else ""
            found.append(
                f"Harmless changes cost this defence answers: with {worst.images} the classifier alone is right on "
                f"{100 * worst.bare.value:.1f} % of {worst.bare.n} images, the defence on "
                f"{100 * worst.deployed.value:.1f} %.{more}"
            )
        return found


def measure(
    defense: Defense, held_out: Dataset, *, seed: int, device: str, watch: Watch, started: float | None = None,
    why: str = "", workers: Pool | None = None,
) -> Fitted:  # fmt: skip
    """A calibrated defence on images that nothing was fitted, calibrated or chosen on; `started` is when the fit was,
    by `time.monotonic`, `why` says how its rule was chosen, and `workers` attack."""
    started = time.monotonic() if started is None else started
    portion = at_once(held_out.shape, 100)
    take = partial(drawn, held_out, seed=seed, device=device)
    clean = _counted(defense, *take(CLEAN), portion, partial(watch, "Checking on clean images"))
    images, labels = take(ATTACKED)
    told = partial(watch, "Attacking with PGD-20")
    found, reason = oblivious(defense, images, labels, portion, seed, told, workers=workers)
    attacked = None
    if found is not None:
        counted = _counted(defense, found, labels, portion, partial(watch, "Checking on attacked images"))
        attacked = Row.of("PGD-20, 8/255 (does not know the defence)", counted)
    changed = harmless_rows(defense, *take(CHANGED), portion, partial(watch, "Checking on harmless changes"))
    harmless = tuple(Row.of(found["change"], found, found["moderate"]) for found in changed)
    return Fitted(defense, Row.of("clean", clean), attacked, reason, harmless, time.monotonic() - started, why)


def drawn(dataset: Dataset, limits: tuple[int, int], *, seed: int, device: str) -> tuple[Tensor, Tensor]:
    """Images and labels, at most and at least so many as the limits say; fewer where pictures are large."""
    most, least = limits
    some = dataset.draw(min(len(dataset), max(least, at_once(dataset.shape, most))), seed)
    return some.images.to(device), some.labels.to(device)


def oblivious(
    defense: Defense, images: Tensor, labels: Tensor, portion: int, seed: int, watch: Count, eps: float = 8 / 255,
    workers: Pool | None = None,
) -> tuple[Tensor | None, str]:  # fmt: skip
    """What PGD-20 on the classifier alone makes of images, or why there is no such attack."""
    search = PGD(eps=eps, steps=20, seed=seed, batch_size=portion)
    ends = [*range(portion, len(images), portion), len(images)]
    pieces = [(images[part], labels[part], part.start) for part in search.batches(len(images))]
    parts: list[Tensor] = []
    watch(0, len(images))
    try:
        with pool_of(workers) as pool:
            for number, found in pool.run(attacked_part, (search, defense.classifier), pieces, in_order=True):
                parts.append(found.to(images.device))
                watch(ends[number], len(images))
    except (NoGradientError, RuntimeError) as error:
        # torch has many errors for what cannot be differentiated, all of them RuntimeError; the commonest is NumPy's.
        none = isinstance(error, NoGradientError) or "requires grad" in str(error)
        why = "it has no gradient" if none else f"its gradient failed ({' '.join(str(error).split())})"
        return None, f"The classifier was not attacked: {why}. How much of an attack is noticed was not measured."
    return torch.cat(parts) if parts else images.clone(), ""


def attacked_part(shared: tuple[PGD, Classifier], piece: tuple[Tensor, Tensor, int], desk: Desk) -> Tensor:
    """What the search makes of some of the images, wherever this runs."""
    (search, classifier), (images, labels, first) = shared, piece
    return search(classifier, images, labels, numbers=range(first, first + len(images)))


def _counted(defense: Defense, images: Tensor, labels: Tensor, portion: int, watch: Count) -> dict[str, int]:
    """`counts`, with word of how far it is."""
    total: dict[str, int] = {}
    watch(0, len(images))
    for start in range(0, len(images), portion):
        part = slice(start, start + portion)
        some = counts(defense, images[part], labels[part], portion)
        total = {name: total.get(name, 0) + number for name, number in some.items()}
        watch(min(start + portion, len(images)), len(images))
    return total
