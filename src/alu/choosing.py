"""Choosing the rule of a fit, and its width: what loses least where it loses most, on pictures that do not measure the
result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from alu.data.dataset import Dataset
from alu.decision import RULES, RuleName
from alu.defense import Defense, batched_logits
from alu.errors import UsageError
from alu.evaluation.harmless import HARMLESS
from alu.fitted import drawn, oblivious
from alu.progress import Count, Watch, at_once, silent
from alu.stats import Share
from alu.workers import Pool

CANDIDATES: tuple[RuleName, ...] = ("graded", "alu", "purified")
"""The rules that always answer. The first does the least harm, and so few pictures tell no small differences: another
must lose less by more than `CLEARLY`."""
CLEARLY = 0.01
WIDTHS = (0.02, 0.05, 0.1, 0.2)
"""P-values up to which an image may be suspicious; of equal ones the first, which changes least, is taken."""
CLEAN, ATTACKED, CHANGED = (200, 50), (200, 50), (100, 20)
"""At most and, where pictures are large, at least so many pictures, if there are as many; the last for each change."""
RADII = (8, 4)
"""Of the attack, in 255ths: a weaker one leaves larger p-values."""
BEST = {
    "clean": (("bare",), "the classifier alone"),
    "changed": (("bare", "purified"), "the better of the bare and the purified answer"),
    "attacked": (("bare", "purified", "alu"), 'the best of the bare answer, the purified one and rule "alu"'),
}
"""The plain ways to answer that a candidate is compared with; what the best of them is called."""


@dataclass(frozen=True)
class Candidate:
    """A rule and, where that is to be chosen too, the p-value up to which a picture is suspicious."""

    rule: RuleName
    suspicious: float | None = None

    def __str__(self) -> str:
        return self.rule if self.suspicious is None else f"{self.rule} up to p = {100 * self.suspicious:g} %"


@dataclass(frozen=True)
class Kind:
    """One kind of pictures: how often the best plain way to answer is right on it, and each candidate.

    Harmless changes that are alike are one kind, each with the best way to answer it: with one change by itself, chance
    would decide.
    """

    name: str
    way: str
    """What the best plain way is called."""
    best: Share
    right: dict[Candidate, Share]

    def lost(self, candidate: Candidate) -> float:
        """How much less often the candidate is right than the best way; below 0 if it is right more often."""
        return self.best.value - self.right[candidate].value

    @staticmethod
    def join(parts: Sequence[Kind]) -> Kind:
        """Pictures of one kind that were tried one part after the other."""

        def total(shares: Iterable[Share]) -> Share:
            found = list(shares)
            return Share(sum(share.count for share in found), sum(share.n for share in found))

        right = {candidate: total(part.right[candidate] for part in parts) for candidate in parts[0].right}
        return Kind(parts[0].name, parts[0].way, total(part.best for part in parts), right)


@dataclass(frozen=True)
class Choice:
    """The candidate that was chosen, and the kinds of pictures that were tried."""

    taken: Candidate
    kinds: tuple[Kind, ...]

    @property
    def rule(self) -> RuleName:
        """The rule that was chosen."""
        return self.taken.rule

    @property
    def suspicious(self) -> float | None:
        """The width that was chosen; None keeps the one of the defence."""
        return self.taken.suspicious

    @staticmethod
    def among(kinds: Iterable[Kind]) -> Choice:
        """The candidate whose largest loss is the smallest; where those are equal, the next largest decide, and of
        equal ones the first is taken; one of the first rule unless another's largest loss is clearly smaller."""
        tried = tuple(kinds)
        every = list(tried[0].right)
        # Candidates answer many pictures alike, so that their largest losses are often exactly equal.
        losses = {one: sorted((round(max(kind.lost(one), 0.0), 9) for kind in tried), reverse=True) for one in every}
        first = min((one for one in every if one.rule == every[0].rule), key=losses.__getitem__)
        least = min(every, key=losses.__getitem__)
        clear = round(losses[first][0] - losses[least][0], 9) > CLEARLY
        return Choice(least if clear else first, tried)

    def worst(self, candidate: Candidate) -> Kind:
        """The kind of pictures on which this candidate loses most."""
        return max(self.kinds, key=lambda kind: kind.lost(candidate))

    def __str__(self) -> str:
        width = "" if self.suspicious is None else f"pictures up to p = {100 * self.suspicious:g} % as suspicious"
        candidates = list(self.kinds[0].right)
        if len({candidate.rule for candidate in candidates}) == 1:  # the user named it
            what = f'Rule "{self.rule}" takes {width}'
        else:
            what = f'Rule "{self.rule}" was chosen{width and ", with "}{width}'
        worst = self.worst(self.taken)
        least = min(self.worst(one).lost(one) for one in candidates)
        why = "loses least" if worst.lost(self.taken) <= least else "changes few answers and loses about as little"
        own = worst.right[self.taken]
        shown = [f"{one}: {self._most(one)}" for one in candidates if one != self.taken]
        return (
            f"{what}, because it {why} where it loses most, on pictures that measure nothing else: "
            f"{self._most(self.taken)}, where it is right on {100 * own.value:.1f} % of {own.n} and "
            f"{worst.way} on {100 * worst.best.value:.1f} %. The others lose up to: {'; '.join(shown)}."
        )

    def _most(self, candidate: Candidate) -> str:
        """How much it loses at most, and on which pictures."""
        worst = self.worst(candidate)
        return f"{100 * max(worst.lost(candidate), 0.0):.1f} points {worst.name}"


@torch.no_grad()
def choose(
    defense: Defense, pictures: Dataset, rules: Sequence[RuleName] = CANDIDATES, widths: Sequence[float] = WIDTHS, *,
    seed: int, device: str, watch: Watch, workers: Pool | None = None,
) -> Choice:  # fmt: skip
    """The rule and width for this calibrated defence whose worst loss is the smallest: on clean pictures, on those of
    an attacker who does not know it, and after each harmless change. Without widths that of the defence is kept.

    The pictures must not be those that measure the result afterwards.
    """
    rivals = dict(_rivals(defense, rules, widths))
    portion = at_once(pictures.shape, 100)
    take = partial(drawn, pictures, seed=seed, device=device)
    images, labels = take(CLEAN)
    ask = partial(_kind, rivals, portion=portion)
    told = partial(watch, "Choosing the rule: clean images")
    kinds = [ask("on clean pictures", "clean", images, labels, watch=told)]
    images, labels = take(ATTACKED)
    for radius in RADII:
        told = partial(watch, f"Choosing the rule: PGD-20 at {radius}/255")
        with torch.enable_grad():
            attacked, _ = oblivious(defense, images, labels, portion, seed, told, radius / 255, workers)
        if attacked is not None:
            told = partial(watch, f"Choosing the rule: attacked images, {radius}/255")
            kinds.append(ask(f"under PGD-20 at {radius}/255", "attacked", attacked, labels, watch=told))
    images, labels = take(CHANGED)
    starts = range(0, len(images), portion)
    told = partial(watch, "Choosing the rule: harmless changes")
    families: dict[str, list[Kind]] = {}
    moderate = [change for change in HARMLESS if change.moderate]
    told(0, len(moderate))
    for number, change in enumerate(moderate, start=1):
        changed = torch.cat([change.apply(images[start : start + portion]) for start in starts])
        families.setdefault(change.family, []).append(ask(f"with {change.family}", "changed", changed, labels))
        told(number, len(moderate))
    kinds += map(Kind.join, families.values())
    return Choice.among(kinds)


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


def _kind(
    rivals: dict[Candidate, Defense], name: str, like: str, images: Tensor, labels: Tensor, *, portion: int,
    watch: Count = silent,
) -> Kind:  # fmt: skip
    """How often the best plain way and each candidate are right; all of them share one purification."""
    first = next(iter(rivals.values()))
    paper = first.with_rule("alu")
    ways, way = BEST[like]
    plain, right = dict.fromkeys(ways, 0), dict.fromkeys(rivals, 0)
    watch(0, len(images))
    for start in range(0, len(images), portion):
        part = slice(start, start + portion)
        evidence = first.evidence(images[part])
        bare = evidence.pre_logits if first.reference == "input" else batched_logits(first.logits, images[part])
        answers = {"bare": bare.argmax(1), "purified": evidence.post_logits.argmax(1)}
        answers["alu"] = paper.judge(evidence).label
        for one in ways:
            plain[one] += int((answers[one] == labels[part]).sum())
        for candidate, rival in rivals.items():
            right[candidate] += int((rival.judge(evidence).label == labels[part]).sum())
        watch(min(start + portion, len(images)), len(images))
    n = len(images)
    return Kind(name, way, Share(max(plain.values()), n), {one: Share(count, n) for one, count in right.items()})
