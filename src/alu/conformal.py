"""What clean images teach a defence: scores, from which p-values, thresholds and flags follow, and limits of what
purification may take away. NumPy and no torch: a defence and its export share it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alu.errors import InputError
from alu.stats import conformal_rank, fewest_clean

Numbers = NDArray[np.float64]
Groups = NDArray[np.int64]

RATE = 0.02
"""The share of clean images above each limit before room for an attack is left; few stay above it then."""


def conformal_p_values(scores: Numbers, clean: Numbers) -> Numbers:
    """p = (1 + #{clean scores >= score}) / (n + 1) for each score; `clean` is sorted ascending."""
    below = np.searchsorted(clean, scores)
    values: Numbers = (1.0 + len(clean) - below) / (len(clean) + 1)
    return values


def threshold_among(clean: Numbers, false_alarm: float) -> float:
    """The largest score that is not flagged: p <= false_alarm exactly for scores above it. `clean` is sorted."""
    return float(clean[max(0, conformal_rank(len(clean), false_alarm))])


@dataclass(frozen=True)
class Calibration:
    """The scores of clean images, and the test that follows from them."""

    scores: Numbers
    """In ascending order; may be empty where the threshold is fixed."""
    false_alarm: float
    groups: Groups | None = None
    """The group that each clean image belongs to, where images are compared within their own group only."""
    fixed: float | None = None
    """The threshold, where it does not follow from the scores."""

    @staticmethod
    def of(
        scores: Numbers, false_alarm: float, groups: Groups | None = None, fixed: float | None = None, who: str = ""
    ) -> Calibration:
        """From scores in any order; `who` gave them, for the error message."""
        if not np.isfinite(scores).all():
            raise InputError(f"{who} gave NaN or infinite scores on the calibration images. Check its `score`.")
        order = np.argsort(scores, kind="stable")
        return Calibration(scores[order], false_alarm, None if groups is None else groups[order], fixed)

    def p_values(self, scores: Numbers, groups: Groups | None = None) -> Numbers:
        """(1 + #{clean scores >= score}) / (n + 1) [N], among the clean images of an image's group; NaN without any."""
        if not len(self.scores):
            return np.full(len(scores), np.nan)
        values = conformal_p_values(scores, self.scores)
        for chosen, clean in self._within(groups):
            values[chosen] = conformal_p_values(scores[chosen], clean)
        return values

    def thresholds(self, count: int, groups: Groups | None = None, rate: float | None = None) -> Numbers:
        """The threshold that holds for each of `count` images; with `rate`, that of this rate in place of
        `false_alarm`, which it must not be below."""
        if rate is None and self.fixed is not None:
            return np.full(count, self.fixed)
        rate = self.false_alarm if rate is None else rate
        values = np.full(count, threshold_among(self.scores, rate))
        for chosen, clean in self._within(groups):
            values[chosen] = threshold_among(clean, rate)
        return values

    def flags(self, scores: Numbers, groups: Groups | None = None) -> NDArray[np.bool_]:
        """Whether each score is above its threshold [N]. One that is not a number is not below any: it is flagged."""
        flagged: NDArray[np.bool_] = ~(scores <= self.thresholds(len(scores), groups))
        return flagged

    def _within(self, groups: Groups | None) -> list[tuple[NDArray[np.bool_], Numbers]]:
        """For each group of the images asked about: where they are, and its clean scores."""
        if self.groups is None or groups is None:
            return []
        both = np.intersect1d(groups, self.groups)
        return [(groups == group, self.scores[self.groups == group]) for group in both]


def refuse_too_few(count: int, false_alarm: float, who: str, where: str = "") -> None:
    """Raise an error if the clean images are so few that nothing could ever be flagged."""
    least = fewest_clean(false_alarm)
    if count < least:
        raise InputError(
            f"{who} needs at least {least} clean images{where} for a false-alarm rate of {100 * false_alarm:g} %; it "
            f"was given {count}. Give more images or allow more false alarms."
        )


def refuse_too_few_in_a_group(groups: Groups, among: int, false_alarm: float, who: str) -> None:
    """The same for each of `among` groups, which are the classes that images are predicted as."""
    for group, count in enumerate(np.bincount(groups, minlength=among)):
        refuse_too_few(int(count), false_alarm, who, f" predicted as class {group} (per_class thresholds)")


def clean_residual(statistics: Numbers) -> Numbers:
    """Of each statistic of clean images [N, 2] the value that a share `RATE` of them exceeds [2]."""
    ordered: Numbers = np.sort(statistics, axis=0)[math.ceil((1 - RATE) * len(statistics)) - 1]
    return ordered


def residual_limits(clean: Numbers, eps: float) -> Numbers:
    """The largest values of the two statistics that an attack of size `eps` may have [2]: how noisy the image is all
    over, to which an attack adds in quadrature, and its worst pixel."""
    noise, worst = clean
    return np.array([math.sqrt(noise**2 + eps**2), worst + eps])


def numbers(values: Any) -> Numbers:
    """Anything array-like in the precision that scores are compared in."""
    return np.asarray(values, dtype=np.float64)
