"""Shares, bootstrap estimates, the sign test and conformal thresholds: values by hand, coverage, no torch."""

from __future__ import annotations

import doctest
import subprocess
import sys

import pytest
import torch
from scipy.stats import binomtest

from alu import stats
from alu.conformal import numbers, threshold_among
from alu.stats import (
    Share,
    bootstrap,
    conformal_rank,
    conformal_threshold,
    explained_variance,
    fewest_clean,
    mean,
    mean_difference,
)


@pytest.mark.parametrize(("count", "n"), [(0, 100), (100, 100), (1, 10), (37, 200), (499, 500)])
def test_intervals_of_shares_are_wilsons(count: int, n: int) -> None:
    expected = binomtest(count, n).proportion_ci(0.95, method="wilson")
    assert Share(count, n).interval == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_the_ends_of_an_interval_are_exact() -> None:
    assert Share(0, 100).interval[0] == 0.0
    assert Share(100, 100).interval[1] == 1.0


def test_examples_in_docstrings() -> None:
    assert doctest.testmod(stats) == (0, 4)


def test_estimates_by_hand() -> None:
    assert mean([1.0, 2.0, 6.0]).value == 3.0
    assert mean_difference([1.0, 2.0, 6.0], [1.0, 1.0, 1.0]).value == 2.0
    assert stats.ratio([1.0, 2.0], [4.0, 8.0]).value == 0.25
    assert explained_variance([1.0, 2.0, 3.0], [11.0, 12.0, 13.0]).value == 1.0, "a constant is allowed"
    assert explained_variance([0.0, 0.0, 0.0], [1.0, 2.0, 3.0]).value == 0.0
    assert mean([1.0, 1.0]).shown() == "1.00 [1.00, 1.00]"


def test_an_interval_covers_the_true_mean_as_often_as_it_says() -> None:
    drawn = torch.randn(400, 60, generator=torch.Generator().manual_seed(1)) + 3
    covered = sum(low <= 3 <= high for low, high in (mean(row.tolist()).interval for row in drawn))
    assert 0.90 <= covered / 400 <= 0.98


def test_pairs_stay_pairs() -> None:
    first = torch.linspace(0, 100, 50).tolist()
    difference = mean_difference([value + 1 for value in first], first)
    assert difference.interval == pytest.approx((1.0, 1.0)), "images differ by far more than the two answers on each"


def test_the_same_values_give_the_same_interval() -> None:
    values = torch.rand(30, generator=torch.Generator().manual_seed(2)).tolist()
    assert mean(values) == mean(values)


def test_columns_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="of one length"):
        mean_difference([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="not empty"):
        bootstrap(lambda column: column.mean(-1), [])


@pytest.mark.parametrize("n", [199, 399, 400, 1000])
@pytest.mark.parametrize("rate", [0.005, 0.01, 0.1])
def test_p_values_above_the_threshold_are_at_most_the_rate(n: int, rate: float) -> None:
    clean = [float(value) for value in range(n)]
    threshold = conformal_threshold(clean[::-1], rate)
    assert threshold is not None
    for score in (threshold, threshold + 1):
        p_value = (1 + sum(other >= score for other in clean)) / (n + 1)
        assert (score > threshold) == (p_value <= rate + 1e-9)
    assert threshold_among(numbers(clean), rate) == threshold, "detectors and pages have one threshold"


def test_too_few_clean_scores_have_no_threshold() -> None:
    assert conformal_rank(198, 0.005) == 198
    assert conformal_threshold([0.0] * 198, 0.005) is None


def test_a_quantile_lies_between_its_neighbours() -> None:
    assert stats.quantile([float(value) for value in range(201)], 0.995) == pytest.approx(199.0)
    assert stats.quantile([0.0, 1.0], 0.25) == 0.25
    assert stats.quantile([7.0], 0.995) == 7.0


def test_the_sign_test_by_hand() -> None:
    assert stats.sign_test(0, 5) == pytest.approx(2 / 32)
    assert stats.sign_test(3, 3) == stats.sign_test(0, 0) == 1.0
    assert 0 < stats.sign_test(900, 1100) < 1e-5, "no number is too large for it"


def test_the_roc_by_hand() -> None:
    assert stats.roc([1.0, 2.0], [2.0, 3.0]) == [(0.0, 0.0), (0.0, 0.5), (0.5, 1.0), (1.0, 1.0)]
    assert stats.roc([1.0], [1.0, 2.0, 2.0, 0.0])[1:] == [(0.0, 0.5), (1.0, 0.75), (1.0, 1.0)]
    assert stats.roc([1.0, 1.0], [1.0]) == [(0.0, 0.0), (1.0, 1.0)]


def test_torch_and_numpy_wait_until_they_are_needed() -> None:
    code = "import sys, alu.stats; print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("rate", [0.5, 0.1, 0.05, 0.007, 0.005, 0.001])
def test_fewest_clean_is_where_a_threshold_begins(rate: float) -> None:
    least = fewest_clean(rate)
    assert conformal_rank(least, rate) < least
    assert conformal_rank(least - 1, rate) == least - 1
