"""The monitor's promise: clean streams raise the alarm in at most 1 % of runs, and changed ones soon."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats

import alu
from alu.data import Dataset
from alu.monitor import BETS, Monitor, bet, payoffs
from alu.rng import generator

Floats = NDArray[np.float64]
LEVEL = math.log(100.0)
CHANGE = 2_000


def highest(p_values: Floats) -> Floats:
    """The highest log evidence of each stream, of p-values [streams, pictures]."""
    shares, logs = np.full((len(p_values), len(BETS)), 1 / len(BETS)), np.zeros(len(p_values))
    top = logs.copy()
    for number in range(p_values.shape[1]):
        shares, factor = bet(shares, payoffs(p_values[:, number]), number)
        logs += np.log(factor)
        top = np.maximum(top, logs)
    return top


def test_fair_p_values_rarely_raise_the_alarm() -> None:
    alarms = (highest(np.random.default_rng(0).random((1000, 5_000))) >= LEVEL).sum()
    # 10 of 1,000 are promised at most; 20 or more would then be seen once in 300 times.
    assert 0 < alarms < 20


def test_p_values_of_one_stream_are_independent_and_uniform_across_streams() -> None:
    draws = np.random.default_rng(1)
    streams = []
    for seed in range(2_000):
        # Few clean scores and rounded ones, so that ties and shared errors would show.
        scores = draws.gamma(2.0, size=10 + 12).round(1)
        streams.append(Monitor(scores[:10], seed=seed).update(scores[10:]).p_values)
    p = np.array(streams)
    for place in range(12):
        assert stats.kstest(p[:, place], "uniform").pvalue > 1e-4
    # Independent: no pair of places is correlated, in the values or in how far they are from the middle.
    for values in (p, np.abs(p - 0.5)):
        correlations = np.corrcoef(values.T)[np.triu_indices(12, 1)]
        assert np.abs(correlations).max() < 4.5 / math.sqrt(2_000)


def test_p_values_against_fixed_clean_scores_break_the_promise() -> None:
    # Why a monitor ranks among everything seen: the error of 100 clean scores is the same for all later pictures.
    draws, n = np.random.default_rng(2), 100
    streams = []
    for _ in range(100):
        clean, scores = np.sort(draws.random(n)), draws.random(5_000)
        streams.append((n - np.searchsorted(clean, scores) + draws.random(5_000)) / (n + 1))
    assert (highest(np.array(streams)) >= LEVEL).mean() > 0.2


@pytest.fixture(scope="module")
def fast(clean: object) -> alu.Defense:
    """The demo's defence without latent steps, which is quick; calibrated on all bundled images."""
    return alu.load("demo@0")


@pytest.fixture(scope="module")
def pool(fast: alu.Defense) -> Floats:
    """Real clean scores: those of the calibration images."""
    assert fast.detector is not None
    return fast.detector.scores_.numpy()


@pytest.mark.parametrize("seed", range(5))
def test_clean_pictures(pool: Floats, seed: int) -> None:
    # Clean and new scores are drawn from the same 1,500 pictures, so that they are exchangeable, with many ties.
    draws = np.random.default_rng(seed)
    monitor = Monitor(draws.choice(pool, 1_500), seed=seed)
    monitor.update(draws.choice(pool, 10_000))
    assert not monitor.martingale.alarmed


@pytest.mark.parametrize("change", ["noise", "PGD"])
def test_changed_pictures_raise_the_alarm_within_200(
    fast: alu.Defense, pool: Floats, sample: Dataset, change: str
) -> None:
    some = sample.draw(200)
    if change == "PGD":
        images = alu.attacks.PGD(eps=8 / 255, steps=5)(fast.classifier, some.images, some.labels)
    else:
        noise = torch.randn(some.images.shape, generator=generator(0, "noise"))
        images = (some.images + 0.1 * noise).clamp(0, 1)
    scores = fast.decide(images).score.numpy()
    delays = []
    for seed in range(5):
        draws = np.random.default_rng(seed)
        monitor = Monitor(draws.choice(pool, 1_500), seed=seed)
        monitor.update(draws.choice(pool, CHANGE))
        assert not monitor.martingale.alarmed
        monitor.update(draws.permutation(scores))
        assert monitor.martingale.alarm_at is not None
        delays.append(monitor.martingale.alarm_at - CHANGE)
    assert 1 <= min(delays) <= max(delays) <= 200
    print(change, delays)
