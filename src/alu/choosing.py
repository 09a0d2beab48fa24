"""Choosing the rule of a fit, and its width: what each would answer on pictures that do not measure the result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from alu.data.dataset import Dataset
from alu.decision import RULES, RuleName
from alu.defense import Defense
from alu.errors import UsageError
from alu.evaluation.harmless import HARMLESS
from alu.fitted import drawn, oblivious
from alu.progress import Count, Watch, at_once
from alu.stats import Share
from alu.workers import Pool

CANDIDATES: tuple[RuleName, ...] = ("graded", "alu", "purified")
"""The rules that always answer. The first does the least harm, and so few pictures tell no small differences: another
must be right more often by more than `CLEARLY`."""
CLEARLY = 0.01
WIDTHS = (0.02, 0.05, 0.1, 0.2)
"""P-values up to which an image may be suspicious; of equal ones the first, which changes least, is taken."""
CLEAN, ATTACKED, CHANGED = (200, 50), (100, 25), (50, 20)
"""At most and, where pictures are large, at least so many pictures, if there are as many; the last for each change."""
RADII = {"attacked": 8, "weaker": 4}
"""Kinds of attacked pictures, by radius in 255ths: a weaker attack leaves larger p-values."""
KINDS = {
    "clean": "clean",
    **{kind: f"under PGD-20 at {radius}/255" for kind, radius in RADII.items()},
    "changed": "after moderate harmless changes",
}


@dataclass(frozen=True)
class Candidate:
    """A rule and, where that is to be chosen too, the p-value up to which a picture is suspicious."""

    rule: RuleName
    suspicious: float | None = None

    def __str__(self) -> str:
        return self.rule if self.suspicious is None else f"{self.rule} up to p = {100 * self.suspicious:g} %"


@dataclass(frozen=True)
class Choice:
    """The candidate that was chosen, and how often each was right on each kind of pictures that was tried."""

    taken: Candidate
    right: dict[Candidate, dict[str, Share]]

    @property
    def rule(self) -> RuleName:
        """The rule that was chosen."""
        return self.taken.rule

    @property
    def suspicious(self) -> float | None:
        """The width that was chosen; None keeps the one of the defence."""
        return self.taken.suspicious

    @staticmethod
    def among(right: dict[Candidate, dict[str, Share]]) -> Choice:
        """The candidate with the highest mean over the kinds, each of which counts alike, of equal ones the first; of
        the first rule unless another is clearly better."""

        def best(some: list[Candidate]) -> Candidate:
            return max(some, key=lambda candidate: round(_mean(right[candidate]), 9))

        every = list(right)
        first, highest = best([one for one in every if one.rule == every[0].rule]), best(every)
        clear = round(_mean(right[highest]) - _mean(right[first]), 9) > CLEARLY
        return Choice(highest if clear else first, right)

    def __str__(self) -> str:
        width = "" if self.suspicious is None else f"pictures up to p = {100 * self.suspicious:g} % as suspicious"
        if len({candidate.rule for candidate in self.right}) == 1:  # the user named it
            what = f'Rule "{self.rule}" takes {width}'
        else:
            what = f'Rule "{self.rule}" was chosen{width and ", with "}{width}'
        own = self.right[self.taken]
        shown = [f"{100 * share.value:.1f} % {KINDS[kind]} (n = {share.n})" for kind, share in own.items()]
        means = [f"{other}: {100 * _mean(found):.1f} %" for other, found in self.right.items() if other != self.taken]
        most = max(map(_mean, self.right.values()))
        why = "it is right most often" if _mean(own) >= most else "it changes few answers and is right about as often"
        return (
            f"{what}, because {why} on pictures that measure nothing else: {', '.join(shown)}; on "
            f"average {100 * _mean(own):.1f} %. The others on average: {'; '.join(means)}."
        )


def _mean(shares: dict[str, Share]) -> float:
    return sum(share.value for share in shares.values()) / len(shares)


@torch.no_grad()
def choose(
    defense: Defense, pictures: Dataset, rules: Sequence[RuleName] = CANDIDATES, widths: Sequence[float] = WIDTHS, *,
    seed: int, device: str, watch: Watch, workers: Pool | None = None,
) -> Choice:  # fmt: skip
    """The best rule and width for this calibrated defence: clean, attacked by someone who does not know it, changed
    without harm. Without widths that of the defence is kept.

    The pictures must not be those that measure the result afterwards.
    """
    rivals = dict(_rivals(defense, rules, widths))
    portion = at_once(pictures.shape, 100)
    take = partial(drawn, pictures, seed=seed, device=device)
    images, labels = take(CLEAN)
    found = {"clean": _right(rivals, images, labels, portion, partial(watch, "Choosing the rule: clean images"))}
    images, labels = take(ATTACKED)
    for kind, radius in RADII.items():
        told = partial(watch, f"Choosing the rule: PGD-20 at {radius}/255")
        with torch.enable_grad():
            attacked, _ = oblivious(defense, images, labels, portion, seed, told, radius / 255, workers)
        if attacked is not None:
            told = partial(watch, f"Choosing the rule: attacked images, {radius}/255")
            found[kind] = _right(rivals, attacked, labels, portion, told)
    images, labels = take(CHANGED)
    moderate = [change for change in HARMLESS if change.moderate]
    starts = range(0, len(images), portion)
    changed = [change.apply(images[start : start + portion]) for change in moderate for start in starts]
    told = partial(watch, "Choosing the rule: harmless changes")
    found["changed"] = _right(rivals, torch.cat(changed), labels.repeat(len(moderate)), portion, told)
    return Choice.among({rival: {kind: shares[rival] for kind, shares in found.items()} for rival in rivals})


def _rivals(
    defense: Defense, rules: Sequence[RuleName], widths: Sequence[float]
) -> Iterator[tuple[Candidate, Defense]]:
    """The defence as each candidate; a rule that does not fit its reference or purifier is left out."""
    for rule in rules:
        for width in (RULES[rule].uses_state and widths) or (None,):
            try:
                yield Candidate(rule, width), defense.with_rule(rule, width)
            except UsageError:
                continue


def _right(
    rivals: dict[Candidate, Defense], images: Tensor, labels: Tensor, portion: int, watch: Count
) -> dict[Candidate, Share]:
    """How often each candidate is right; all of them share one purification."""
    right = dict.fromkeys(rivals, 0)
    first = next(iter(rivals.values()))
    watch(0, len(images))
    for start in range(0, len(images), portion):
        part = slice(start, start + portion)
        evidence = first.evidence(images[part])
        for candidate, rival in rivals.items():
            right[candidate] += int((rival.judge(evidence).label == labels[part]).sum())
        watch(min(start + portion, len(images)), len(images))
    return {candidate: Share(count, len(images)) for candidate, count in right.items()}
