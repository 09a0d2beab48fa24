"""Wilson intervals against SciPy."""

from __future__ import annotations

import pytest
from scipy.stats import binomtest

from alu.evaluation.intervals import Share


@pytest.mark.parametrize(("count", "n"), [(0, 100), (100, 100), (1, 10), (37, 200), (499, 500)])
def test_wilson(count: int, n: int) -> None:
    expected = binomtest(count, n).proportion_ci(0.95, method="wilson")
    assert Share(count, n).interval == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_the_ends_are_exact() -> None:
    assert Share(0, 100).interval[0] == 0.0
    assert Share(100, 100).interval[1] == 1.0
    assert str(Share(37, 200)) == "18.5 % [13.7, 24.5]"
