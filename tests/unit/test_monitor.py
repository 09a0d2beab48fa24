"""The martingale and the monitor: values known by hand, state, and what they refuse."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from alu.errors import InputError, StorageError, UsageError
from alu.monitor import BETS, HEAD_START, NEAREST, Martingale, Monitor, bet, payoffs
from alu.rng import uniforms


def test_every_bet_is_a_density() -> None:
    points = np.array([0.001, 0.2, 0.5, 0.77, 0.999])
    expected = np.stack([stats.beta(a, b).pdf(points) for a, b in BETS], 1)
    assert np.allclose(payoffs(points), expected)
    # Beyond the last points the payoff stays as it is: that may take from the mean, and adds no more than rounding.
    ends = payoffs(np.array([0.0, 1.0])).sum(0) * NEAREST
    for (a, b), end in zip(BETS, ends, strict=True):
        area = stats.beta(a, b).cdf(1 - NEAREST) - stats.beta(a, b).cdf(NEAREST) + end
        assert 0.998 < area < 1.0 + 1e-15


def test_one_bet_by_hand() -> None:
    martingale = Martingale()
    logs = martingale.update(0.25)
    expected = np.mean([stats.beta(a, b).pdf(0.25) for a, b in BETS])
    assert martingale.evidence == pytest.approx(expected)
    assert logs.tolist() == [pytest.approx(math.log10(expected))]
    # The second: a share of 1 / 101 is dealt anew, then all is multiplied.
    first = np.array([stats.beta(a, b).pdf(0.25) for a, b in BETS]) / len(BETS)
    dealt = (1 - 1 / (HEAD_START + 1)) * first + first.sum() / (HEAD_START + 1) / len(BETS)
    martingale.update([0.9])
    assert martingale.evidence == pytest.approx(float(dealt @ [stats.beta(a, b).pdf(0.9) for a, b in BETS]))


def test_streams_beside_each_other_are_those_of_single_martingales() -> None:
    p = np.random.default_rng(0).random((3, 50)) ** 1.5
    shares, logs = np.full((3, len(BETS)), 1 / len(BETS)), np.zeros(3)
    for number in range(50):
        shares, factor = bet(shares, payoffs(p[:, number]), number)
        logs += np.log(factor)
    for row, expected in zip(p, logs, strict=True):
        martingale = Martingale()
        martingale.update(row)
        assert martingale.log10_evidence == pytest.approx(expected / math.log(10))


def test_the_alarm_is_sticky_and_says_when() -> None:
    martingale = Martingale(alarm=50)
    logs = martingale.update([0.5, 0.5, *[0.001] * 3])
    first = int(np.argmax(logs >= math.log10(50))) + 1
    assert 2 < first <= 5
    assert (martingale.alarmed, martingale.alarm_at, martingale.count) == (True, first, 5)
    assert martingale.highest == pytest.approx(10 ** logs.max())
    later = martingale.update(np.random.default_rng(0).random(3000))
    assert martingale.evidence < 50 < martingale.highest == pytest.approx(10 ** max(*logs, *later))
    assert martingale.alarm_at == first
    martingale.reset()
    assert (martingale.evidence, martingale.highest, martingale.alarm_at, martingale.count) == (1.0, 1.0, None, 0)


def test_evidence_beyond_floats_is_still_told() -> None:
    martingale = Martingale()
    martingale.update([1e-9] * 200)
    assert martingale.evidence == math.inf
    assert 308 < martingale.log10_evidence == martingale.log10_highest < 10_000
    assert math.isfinite(Martingale.from_dict(json.loads(json.dumps(martingale.to_dict()))).log10_evidence)


@pytest.mark.parametrize("wrong", [[0.5, -0.1], [1.1], [math.nan], [[0.5, 0.5]]])
def test_what_is_no_p_value_is_refused_and_changes_nothing(wrong: list[float]) -> None:
    martingale = Martingale()
    with pytest.raises(InputError, match="from 0 to 1"):
        martingale.update(wrong)
    assert martingale.to_dict() == Martingale().to_dict()


def test_ends_are_finite() -> None:
    martingale = Martingale()
    assert np.isfinite(martingale.update([0.0, 1.0])).all()


@pytest.mark.parametrize("alarm", [1.0, 0.0, -3.0, math.nan, math.inf])
def test_an_alarm_that_cannot_be_is_refused(alarm: float) -> None:
    with pytest.raises(UsageError, match="above 1"):
        Martingale(alarm)


def test_p_values_of_a_monitor_by_hand() -> None:
    monitor = Monitor([1.0, 2.0, 2.0, 4.0], seed=3)
    draws = uniforms(0, 4, 3, "ties")
    # Above and equal among everything before, the picture itself among the equal ones.
    expected = [(1 + 3 * draws[0]) / 5, (0 + draws[1]) / 6, (0 + 2 * draws[2]) / 7, (7 + draws[3]) / 8]
    assert monitor.update([2.0, 9.0, 9.0, 0.5]).p_values.tolist() == pytest.approx(expected)
    assert monitor.martingale.count == 4


def test_without_ties_a_fair_p_value_is_the_detectors_less_a_part_of_its_grid() -> None:
    clean = np.arange(1.0, 100.0)
    monitor, score = Monitor(clean), 40.5
    detector = (1 + (clean >= score).sum()) / (len(clean) + 1)
    fair = monitor.update([score]).p_values[0]
    assert detector - 1 / (len(clean) + 1) < fair < detector


def test_a_portion_at_a_time_is_the_same_as_all_at_once() -> None:
    draws = np.random.default_rng(4)
    clean, scores = draws.gamma(2.0, size=300), draws.gamma(2.2, size=900).round(2)
    whole, parts = Monitor(clean), Monitor(clean)
    seen = whole.update(scores)
    portions = [parts.update(part) for part in np.split(scores, [1, 2, 40, 41, 600])]
    assert np.array_equal(seen.p_values, np.concatenate([one.p_values for one in portions]))
    assert np.allclose(seen.log10_evidence, np.concatenate([one.log10_evidence for one in portions]))
    assert parts.martingale.log10_evidence == pytest.approx(whole.martingale.log10_evidence, abs=1e-9)
    assert parts.martingale.alarm_at == whole.martingale.alarm_at


def test_it_goes_on_exactly_after_a_restart() -> None:
    draws = np.random.default_rng(5)
    clean, scores = draws.gamma(2.0, size=300), draws.gamma(3.0, size=400)
    through, stopped = Monitor(clean, alarm=20, seed=9), Monitor(clean, alarm=20, seed=9)
    through.update(scores[:150])
    stopped.update(scores[:150])
    again = Monitor.from_dict(json.loads(json.dumps(stopped.to_dict())))
    assert np.array_equal(again.update(scores[150:]), through.update(scores[150:]))
    assert again.to_dict() == through.to_dict()
    again.reset()
    assert again.to_dict() == Monitor(clean, alarm=20, seed=9).to_dict()


def test_scores_that_are_no_numbers_count_as_the_highest() -> None:
    monitor = Monitor(np.arange(1.0, 1000.0))
    assert monitor.update([math.nan, math.inf]).p_values.max() < 0.003


@pytest.mark.parametrize("clean", [[], [1.0, math.nan], [[1.0, 2.0]]])
def test_clean_scores_that_cannot_be_are_refused(clean: list[float]) -> None:
    with pytest.raises(InputError, match="scores of clean pictures"):
        Monitor(clean)


def test_a_broken_state_is_one_sentence() -> None:
    good = Monitor([1.0, 2.0]).to_dict()
    cases = [
        {}, {**good, "bag": {"cells": [2, 1], "counts": [1, 1]}}, {**good, "martingale": {}}, {**good, "seed": None},
        {**good, "martingale": {**good["martingale"], "count": 7}},
        {**good, "martingale": {**good["martingale"], "shares": [1.0]}},
        {**good, "martingale": {**good["martingale"], "log": math.inf}},
    ]  # fmt: skip
    for state in cases:
        with pytest.raises(StorageError, match="not the state of a monitor"):
            Monitor.from_dict(state)
    with pytest.raises(StorageError, match="other bets"):
        Martingale.from_dict({**good["martingale"], "bets": [[1.0, 1.0]]})


def test_draws_lie_strictly_between_0_and_1_and_depend_on_their_number_alone() -> None:
    many = uniforms(0, 2000, 1, "ties")
    assert many[500:600] == uniforms(500, 100, 1, "ties")
    assert 0.0 < min(many) < 0.01
    assert 0.99 < max(many) < 1.0
    assert stats.kstest(many, "uniform").pvalue > 0.01
    assert many != uniforms(0, 2000, 8, "ties")


def test_no_torch() -> None:
    code = "import alu.monitor, sys; alu.monitor.Monitor([1.0]).update([2.0]); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
