"""p-values, thresholds and limits from clean images: values by hand, groups, fixed thresholds, and no torch."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from alu.conformal import (
    RATE,
    Calibration,
    clean_residual,
    conformal_p_values,
    numbers,
    refuse_too_few,
    refuse_too_few_in_a_group,
    residual_limits,
    threshold_among,
)
from alu.errors import InputError

CLEAN = numbers([1, 2, 3, 3, 5, 8, 13, 21, 34])


def test_p_values_by_hand() -> None:
    assert conformal_p_values(numbers([0, 3, 4, 34, 35]), CLEAN).tolist() == [1.0, 0.8, 0.6, 0.2, 0.1]


def test_thresholds_by_hand() -> None:
    assert threshold_among(CLEAN, 0.1) == 34
    assert threshold_among(CLEAN, 0.2) == 21
    learned = Calibration.of(CLEAN[::-1].copy(), 0.2)
    assert learned.scores.tolist() == CLEAN.tolist()
    assert learned.thresholds(2).tolist() == [21, 21]
    assert learned.thresholds(1, rate=0.5).tolist() == [5]
    assert learned.flags(numbers([21, 21.5, np.nan])).tolist() == [False, True, True]


def test_an_image_is_compared_within_its_group() -> None:
    learned = Calibration.of(CLEAN, 0.4, np.array([0, 1, 0, 1, 0, 1, 0, 1, 0]))
    asked, groups = numbers([10, 10, 10]), np.array([0, 1, 7])
    # Group 0 has 1, 3, 5, 13, 34; group 1 has 2, 3, 8, 21; nothing is known about group 7, so all count.
    assert learned.p_values(asked, groups) == pytest.approx([3 / 6, 2 / 5, 4 / 10])
    assert learned.thresholds(3, groups).tolist() == [13, 8, 8]
    assert learned.flags(asked, groups).tolist() == [False, True, True]


def test_a_fixed_threshold_needs_no_clean_scores() -> None:
    learned = Calibration(numbers([]), 0.005, fixed=0.0)
    assert learned.flags(numbers([-1, 0, 1])).tolist() == [False, False, True]
    assert np.isnan(learned.p_values(numbers([-1, 0, 1]))).all()
    with_scores = Calibration(CLEAN, 0.005, fixed=0.0)
    assert with_scores.thresholds(1).tolist() == [0.0]
    assert with_scores.thresholds(1, rate=0.1).tolist() == [34.0], "a rate asks for the scores"
    assert with_scores.p_values(numbers([35])).tolist() == [0.1]


def test_scores_that_are_no_numbers_and_too_few_images_are_refused() -> None:
    with pytest.raises(InputError, match="LogitShift gave NaN or infinite scores"):
        Calibration.of(numbers([1, np.nan]), 0.5, who="LogitShift")
    refuse_too_few(199, 0.005, "LogitShift")
    with pytest.raises(InputError, match="LogitShift needs at least 199 clean images for .* 0.5 %; it was given 198"):
        refuse_too_few(198, 0.005, "LogitShift")
    refuse_too_few_in_a_group(np.array([0, 1, 1, 0]), 2, 0.5, "LogitShift")
    with pytest.raises(InputError, match="at least 1 clean images predicted as class 2"):
        refuse_too_few_in_a_group(np.array([0, 1, 1, 0]), 3, 0.5, "LogitShift")


def test_limits_of_what_purification_takes_away() -> None:
    statistics = np.stack([np.arange(100) / 100, np.arange(100)[::-1] / 50], 1)
    learned = clean_residual(statistics)
    assert learned == pytest.approx([0.97, 1.94])
    assert [(statistics > learned).mean(0)] == [pytest.approx([RATE, RATE])]
    assert residual_limits(numbers([0.3, 0.5]), 0.4) == pytest.approx([0.5, 0.9])


def test_without_torch() -> None:
    code = "import sys, alu.conformal, alu.pixels, alu.state, alu.exported; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
