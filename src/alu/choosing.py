"""Choosing the rule of a fit: what each would answer on pictures that do not measure the result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from alu.data.dataset import Dataset
from alu.decision import RuleName
from alu.defense import Defense
from alu.errors import UsageError
from alu.evaluation.harmless import HARMLESS
from alu.fitted import drawn, oblivious
from alu.progress import Count, Watch, at_once
from alu.stats import Share

CANDIDATES: tuple[RuleName, ...] = ("graded", "alu", "purified")
"""The rules that always answer; of equal ones the first is taken."""
CLEAN, ATTACKED, CHANGED = (200, 50), (100, 25), (50, 20)
"""At most and, where pictures are large, at least so many pictures, if there are as many; the last for each change."""
KINDS = {"clean": "clean", "attacked": "under PGD-20 at 8/255", "changed": "after moderate harmless changes"}


@dataclass(frozen=True)
class Choice:
    """The rule that was chosen, and how often each candidate was right on each kind of pictures that was tried."""

    rule: RuleName
    right: dict[RuleName, dict[str, Share]]

    @staticmethod
    def among(right: dict[RuleName, dict[str, Share]]) -> Choice:
        """The rule with the highest mean over the kinds, each of which counts alike."""
        return Choice(max(right, key=lambda rule: _mean(right[rule])), right)

    def __str__(self) -> str:
        own = self.right[self.rule]
        shown = [f"{100 * share.value:.1f} % {KINDS[kind]} (n = {share.n})" for kind, share in own.items()]
        others = [
            f"{rule} {', '.join(f'{100 * share.value:.1f}' for share in shares.values())}"
            for rule, shares in self.right.items()
            if rule != self.rule
        ]
        return (
            f'Rule "{self.rule}" was chosen, because it is right most often on pictures that measure nothing else: '
            f"{', '.join(shown)}. The others: {'; '.join(others)}."
        )


def _mean(shares: dict[str, Share]) -> float:
    return sum(share.value for share in shares.values()) / len(shares)


@torch.no_grad()
def choose(defense: Defense, pictures: Dataset, *, seed: int, device: str, watch: Watch) -> Choice:
    """The best rule for this calibrated defence: clean, attacked by someone who does not know it, changed without harm.

    The pictures must not be those that measure the result afterwards.
    """
    rivals = dict(_rivals(defense))
    portion = at_once(pictures.shape, 100)
    take = partial(drawn, pictures, seed=seed, device=device)
    images, labels = take(CLEAN)
    found = {"clean": _right(rivals, images, labels, portion, partial(watch, "Choosing the rule: clean images"))}
    images, labels = take(ATTACKED)
    with torch.enable_grad():
        attacked, _ = oblivious(defense, images, labels, portion, seed, partial(watch, "Choosing the rule: PGD-20"))
    if attacked is not None:
        told = partial(watch, "Choosing the rule: attacked images")
        found["attacked"] = _right(rivals, attacked, labels, portion, told)
    images, labels = take(CHANGED)
    moderate = [change for change in HARMLESS if change.moderate]
    starts = range(0, len(images), portion)
    changed = [change.apply(images[start : start + portion]) for change in moderate for start in starts]
    told = partial(watch, "Choosing the rule: harmless changes")
    found["changed"] = _right(rivals, torch.cat(changed), labels.repeat(len(moderate)), portion, told)
    return Choice.among({rule: {kind: shares[rule] for kind, shares in found.items()} for rule in rivals})


def _rivals(defense: Defense) -> Iterator[tuple[RuleName, Defense]]:
    """The defence with each candidate; a rule that does not fit its reference or purifier is left out."""
    for rule in CANDIDATES:
        try:
            yield rule, defense.with_rule(rule)
        except UsageError:
            continue


def _right(
    rivals: dict[RuleName, Defense], images: Tensor, labels: Tensor, portion: int, watch: Count
) -> dict[RuleName, Share]:
    """How often each rule is right; all of them share one purification."""
    right = dict.fromkeys(rivals, 0)
    first = next(iter(rivals.values()))
    watch(0, len(images))
    for start in range(0, len(images), portion):
        part = slice(start, start + portion)
        evidence = first.evidence(images[part])
        for rule, rival in rivals.items():
            right[rule] += int((rival.judge(evidence).label == labels[part]).sum())
        watch(min(start + portion, len(images)), len(images))
    return {rule: Share(count, len(images)) for rule, count in right.items()}
