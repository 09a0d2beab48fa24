"""Monitor: has the stream of pictures changed? A conformal test martingale with a false-alarm guarantee. No torch.

Three steps, each exact; docs/monitor.md has the proofs.

1. A score becomes a p-value: its rank among the clean scores and all scores before it, ties broken at random. If
   clean and new pictures are exchangeable, these p-values are independent and uniform on (0, 1).
2. A gambler who starts with 1 bets against that: each bet is a density on (0, 1), so that a fair p-value multiplies the
   capital by 1 on average. The capital is the evidence.
3. Ville's inequality: with fair p-values the evidence ever reaches 100 with probability at most 1/100.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from alu.bag import Bag, grid
from alu.errors import InputError, StorageError, UsageError
from alu.rng import uniforms

Floats = NDArray[np.float64]

BETS = (
    (1.0, 1.0),  # no bet
    (0.8, 1.0), (0.5, 1.0), (0.2, 1.0),  # p-values are small: scores rise
    (1.0, 0.8), (1.0, 0.5), (1.0, 0.2),  # p-values are large: scores fall
    (2.0, 2.0), (4.0, 4.0),  # p-values are near the middle: scores spread less
    (0.5, 0.5),  # p-values are near both ends: scores spread more
)  # fmt: skip
"""Beta densities, by their two parameters."""
HEAD_START = 100.0
"""At picture t a share of 1 / (HEAD_START + t) of the capital is dealt anew among the bets, so that a bet that lost on
ten thousand clean pictures is still there when they change. On a clean stream the evidence then falls as 1 / t does and
not exponentially."""
NEAREST = 2.0**-53
"""How close a p-value may come to 0 and 1. This keeps every payoff finite; bets that pay most at an end then pay a
little less than 1 on average, which keeps the guarantee, and the others more by less than rounding does."""
CHUNK = 256
"""Pictures that are ranked at once: each is compared with all before it in its chunk."""

_A, _B = np.array(BETS).T
_LOG_BETA = np.array([math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b) for a, b in BETS])


def payoffs(p_values: Floats) -> Floats:
    """What each bet pays at each p-value [..., bets]; the mean over uniform p-values is 1."""
    p = np.clip(p_values, NEAREST, 1.0 - NEAREST)[..., None]
    payoff: Floats = np.exp((_A - 1.0) * np.log(p) + (_B - 1.0) * np.log1p(-p) - _LOG_BETA)
    return payoff


def bet(shares: Floats, payoff: Floats, number: int) -> tuple[Floats, Floats]:
    """The shares of the bets in the capital after picture `number`, and the factor by which the capital grew.

    `shares` is [..., bets] and sums to 1; leading dimensions are streams of their own.
    """
    dealt = 1.0 / (HEAD_START + number)
    grown = ((1.0 - dealt) * shares + dealt / len(BETS)) * payoff
    factor = grown.sum(-1)
    return grown / factor[..., None], factor


class Martingale:
    """Evidence that p-values are no longer fair, read at any time: it ever reaches `alarm` with probability at most
    1 / `alarm` as long as they are independent and uniform on (0, 1).

    A detector's own p-values (`Decision.p_value`) are neither: they lie on the grid k / (n + 1), and all of them share
    the error of one set of clean scores. `Monitor` makes fair ones from scores.

    Parameters
    ----------
    alarm
        The evidence at which the alarm is raised. It stays raised until `reset`.

    Examples
    --------
    >>> martingale = alu.monitor.Martingale(alarm=100)
    >>> martingale.update([0.01] * 20).shape, martingale.alarmed
    ((20,), True)
    """

    def __init__(self, alarm: float = 100.0) -> None:
        if not (math.isfinite(alarm) and alarm > 1.0):
            raise UsageError(
                f"alarm is the evidence at which the alarm is raised, a number above 1 such as 100; it is {alarm}."
            )
        self.alarm = float(alarm)
        self.reset()

    def reset(self) -> None:
        """Begin again: evidence 1, no alarm.

        Examples
        --------
        >>> alu.monitor.Martingale().reset()
        """
        self.count = 0
        """How many p-values it was given."""
        self.alarm_at: int | None = None
        """The number of the p-value that raised the alarm, counted from 1; None without alarm."""
        self._log = self._highest = 0.0
        self._shares: Floats = np.full(len(BETS), 1.0 / len(BETS))

    def update(self, p_values: ArrayLike) -> Floats:
        """Bet on these p-values in turn; returns log10 of the evidence after each [N].

        Parameters
        ----------
        p_values
            One or many, each from 0 to 1, in the order in which the pictures came.

        Examples
        --------
        >>> logs = alu.monitor.Martingale().update([0.4, 0.9])
        """
        p = np.atleast_1d(np.asarray(p_values, dtype=np.float64))
        if p.ndim != 1 or not bool(((p >= 0.0) & (p <= 1.0)).all()):
            raise InputError(
                "Martingale needs a list of p-values from 0 to 1; it was given values outside, NaN, or shape "
                f"{list(p.shape)}. Leave out pictures without a p-value."
            )
        logs = np.empty(len(p))
        level = math.log(self.alarm)
        for place, payoff in enumerate(payoffs(p)):
            self._shares, factor = bet(self._shares, payoff, self.count)
            self._log += math.log(factor)
            self.count += 1
            self._highest = max(self._highest, self._log)
            if self.alarm_at is None and self._log >= level:
                self.alarm_at = self.count
            logs[place] = self._log
        return logs / math.log(10.0)

    @property
    def evidence(self) -> float:
        """The capital, 1 at the start; infinite above 1e308, where `log10_evidence` still tells."""
        return _exp(self._log)

    @property
    def highest(self) -> float:
        """The highest evidence so far."""
        return _exp(self._highest)

    @property
    def log10_evidence(self) -> float:
        """log10 of the evidence: 2 for 100."""
        return self._log / math.log(10.0)

    @property
    def log10_highest(self) -> float:
        """log10 of the highest evidence so far."""
        return self._highest / math.log(10.0)

    @property
    def alarmed(self) -> bool:
        """Whether the evidence has ever reached `alarm`."""
        return self.alarm_at is not None

    def to_dict(self) -> dict[str, Any]:
        """Everything needed to go on exactly, as plain values for JSON.

        Examples
        --------
        >>> alu.monitor.Martingale.from_dict(alu.monitor.Martingale().to_dict()).evidence
        1.0
        """
        return {
            "alarm": self.alarm, "count": self.count, "alarm_at": self.alarm_at, "log": self._log,
            "highest": self._highest, "bets": [list(pair) for pair in BETS], "shares": self._shares.tolist(),
        }  # fmt: skip

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Self:
        """The martingale that `to_dict` described.

        Parameters
        ----------
        state
            What `to_dict` returned.

        Examples
        --------
        >>> again = alu.monitor.Martingale.from_dict(alu.monitor.Martingale().to_dict())
        """
        with _reading():
            martingale = cls(float(state["alarm"]))
            if [tuple(pair) for pair in state["bets"]] != list(BETS):
                raise StorageError("The state of this martingale is of a version with other bets. Begin a new one.")
            martingale.count, martingale.alarm_at = int(state["count"]), _whole_or_none(state["alarm_at"])
            martingale._log, martingale._highest = float(state["log"]), float(state["highest"])
            martingale._shares = np.array(state["shares"], dtype=np.float64)
            sane = math.isfinite(martingale._log) and math.isfinite(martingale._highest) and martingale.count >= 0
            if not sane or martingale._shares.shape != (len(BETS),) or not 0.99 < martingale._shares.sum() < 1.01:
                raise ValueError("the numbers do not belong together")
        return martingale


class Seen(NamedTuple):
    """What a monitor makes of scores: a fair p-value for each, and log10 of the evidence after it [N]."""

    p_values: Floats
    log10_evidence: Floats


class Monitor:
    """A martingale on scores: notices drift, a changed camera, or a campaign of attacks, without labels.

    Clean scores and new ones are kept as counts on a fixed grid, so that memory stays bounded (a few hundred kilobytes)
    however long the stream is; scores that agree to one part in 2,000 count as equal, and ties are broken at random.

    Parameters
    ----------
    calibration_scores
        Scores of clean pictures that nothing was trained on, such as `defense.detector.scores_`.
    alarm
        As in `Martingale`.
    seed
        Of the random numbers that break ties.

    Examples
    --------
    >>> monitor = alu.monitor.Monitor(defense.detector.scores_)
    >>> monitor.update(defense.decide(images).score).p_values.shape, monitor.martingale.alarmed
    ((4,), False)
    """

    def __init__(self, calibration_scores: ArrayLike, alarm: float = 100.0, seed: int = 0) -> None:
        clean = np.asarray(calibration_scores, dtype=np.float64)
        if clean.ndim != 1 or not len(clean) or not bool(np.isfinite(clean).all()):
            raise InputError(
                "Monitor needs the finite scores of clean pictures, such as defense.detector.scores_; it was given "
                f"shape {list(clean.shape)}{'' if len(clean) else ', none at all'}."
            )
        self.martingale, self.seed = Martingale(alarm), int(seed)
        self._clean = Bag.of(clean)
        self._bag = self._clean.copy()

    @property
    def calibration_count(self) -> int:
        """How many clean scores it began with."""
        return self._clean.total

    def reset(self) -> None:
        """Begin again with the clean scores alone: evidence 1, no alarm, and what was seen since is forgotten.

        Examples
        --------
        >>> alu.monitor.Monitor([0.5, 1.5]).reset()
        """
        self.martingale.reset()
        self._bag = self._clean.copy()

    def update(self, scores: ArrayLike) -> Seen:
        """Take the scores of new pictures in turn. NaN counts as the highest score.

        Parameters
        ----------
        scores
            One or many, in the order in which the pictures came.

        Examples
        --------
        >>> p_values = alu.monitor.Monitor([0.5, 1.5]).update([0.7, 0.2]).p_values
        """
        cells = grid(np.atleast_1d(np.asarray(scores, dtype=np.float64)))
        p, logs = np.empty(len(cells)), np.empty(len(cells))
        for start in range(0, len(cells), CHUNK):
            some = cells[start : start + CHUNK]
            above, equal, total = self._bag.ranked(some)
            draws = uniforms(self.martingale.count, len(some), self.seed, "ties")
            here = slice(start, start + len(some))
            p[here] = (above + np.array(draws) * (equal + 1)) / (total + 1)
            self._bag.add(some)
            logs[here] = self.martingale.update(p[here])
        return Seen(p, logs)

    def to_dict(self) -> dict[str, Any]:
        """Everything needed to go on exactly, as plain values for JSON.

        Examples
        --------
        >>> again = alu.monitor.Monitor.from_dict(alu.monitor.Monitor([0.5, 1.5]).to_dict())
        """
        return {
            "seed": self.seed, "martingale": self.martingale.to_dict(), "clean": self._clean.to_dict(),
            "bag": self._bag.to_dict(),
        }  # fmt: skip

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Self:
        """The monitor that `to_dict` described.

        Parameters
        ----------
        state
            What `to_dict` returned.

        Examples
        --------
        >>> again = alu.monitor.Monitor.from_dict(alu.monitor.Monitor([0.5, 1.5]).to_dict())
        """
        monitor = cls.__new__(cls)
        with _reading():
            monitor.martingale, monitor.seed = Martingale.from_dict(state["martingale"]), int(state["seed"])
            monitor._clean, monitor._bag = Bag.from_dict(state["clean"]), Bag.from_dict(state["bag"])
            if monitor._bag.total != monitor._clean.total + monitor.martingale.count:
                raise ValueError("the counts do not belong together")
        return monitor


@contextmanager
def _reading() -> Iterator[None]:
    """Turn every way in which a stored state can be broken into one sentence."""
    try:
        yield
    except StorageError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise StorageError(
            f"This is not the state of a monitor ({type(error).__name__}: {error}). Give what to_dict returned, or "
            "begin a new one."
        ) from error


def _whole_or_none(value: Any) -> int | None:
    return None if value is None else int(value)


def _exp(log: float) -> float:
    return math.exp(log) if log < 709.0 else math.inf
