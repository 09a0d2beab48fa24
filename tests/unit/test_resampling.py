"""Bootstrap intervals: the values by hand, intervals that cover what they should, pairs that stay pairs."""

from __future__ import annotations

import pytest
import torch

from alu.evaluation.resampling import explained, lead, mean, ratio


def test_figures_by_hand() -> None:
    assert mean([1.0, 2.0, 6.0]).value == 3.0
    assert lead([1.0, 2.0, 6.0], [1.0, 1.0, 1.0]).value == 2.0
    assert ratio([1.0, 2.0], [4.0, 8.0]).value == 0.25
    assert explained([1.0, 2.0, 3.0], [11.0, 12.0, 13.0]).value == 1.0, "a constant is allowed"
    assert explained([0.0, 0.0, 0.0], [1.0, 2.0, 3.0]).value == 0.0


def test_an_interval_covers_the_true_mean_as_often_as_it_says() -> None:
    drawn = torch.randn(400, 60, generator=torch.Generator().manual_seed(1)) + 3
    covered = sum(low <= 3 <= high for low, high in (mean(row.tolist()).interval for row in drawn))
    assert 0.90 <= covered / 400 <= 0.98


def test_pairs_stay_pairs() -> None:
    first = torch.linspace(0, 100, 50).tolist()
    found = lead([value + 1 for value in first], first)
    assert found.interval == pytest.approx((1.0, 1.0)), "the images differ by far more than the two answers on each"


def test_a_page_can_be_written_again() -> None:
    values = torch.rand(30, generator=torch.Generator().manual_seed(2)).tolist()
    state = torch.random.get_rng_state()
    assert mean(values) == mean(values)
    assert torch.equal(state, torch.random.get_rng_state())
    assert mean([1.0, 1.0]).shown() == "1.00 [1.00, 1.00]"


def test_columns_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="of one length"):
        lead([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="not empty"):
        mean([])
