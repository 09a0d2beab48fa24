"""Ranks in a bag are those of the coarse scores, and the grid keeps the order."""

from __future__ import annotations

import numpy as np
import pytest

from alu.bag import Bag, grid


def test_the_grid_keeps_order_and_tells_scores_apart_that_differ_by_a_thousandth() -> None:
    scores = np.array([-np.inf, -1e300, -7.0, -1e-3, -1e-30, 0.0, 1e-30, 1e-3, 1.0, 1.001, 7.0, 1e300, np.inf])
    cells = grid(scores)
    assert (np.diff(cells) > 0).all()
    assert grid(np.array([-0.0]))[0] == grid(np.array([0.0]))[0]
    assert grid(np.array([np.nan]))[0] == grid(np.array([np.inf]))[0]
    assert grid(np.array([1.0]))[0] == grid(np.array([1.0002]))[0], "or memory is not bounded"
    every = grid(np.random.default_rng(0).normal(size=20_000) * 10.0 ** np.arange(-30, 30).repeat(334)[:20_000])
    assert 0 <= every.max() - every.min() < 2**20


def brute(bag: list[int], cells: list[int]) -> tuple[list[int], list[int], list[int]]:
    above, equal, total = [], [], []
    for cell in cells:
        above.append(sum(one > cell for one in bag))
        equal.append(sum(one == cell for one in bag))
        total.append(len(bag))
        bag = [*bag, cell]
    return above, equal, total


def test_ranks_are_those_among_everything_before() -> None:
    draws = np.random.default_rng(1)
    first = draws.gamma(2.0, size=40).round(1)
    bag, known = Bag.of(first), grid(first).tolist()
    for size in (1, 7, 30):
        cells = grid(draws.gamma(2.0, size=size).round(1))
        expected = brute(known, cells.tolist())
        assert tuple(row.tolist() for row in bag.ranked(cells)) == expected
        bag.add(cells)
        known += cells.tolist()
        assert bag.total == len(known)
        assert bag.cells.repeat(bag.counts).tolist() == sorted(known)


def test_a_copy_changes_by_itself_and_plain_values_bring_it_back() -> None:
    bag = Bag.of(np.array([1.0, 1.0, 3.0]))
    other = bag.copy()
    other.add(grid(np.array([3.0, 9.0])))
    assert (bag.total, other.total) == (3, 5)
    again = Bag.from_dict(other.to_dict())
    assert (again.cells.tolist(), again.counts.tolist()) == (other.cells.tolist(), other.counts.tolist())
    for broken in ({"cells": [2, 1], "counts": [1, 1]}, {"cells": [1], "counts": [0]}, {"cells": [1], "counts": []}):
        with pytest.raises(ValueError, match="sorted"):
            Bag.from_dict(broken)


def test_memory_is_bounded() -> None:
    bag, draws = Bag.of(np.array([1.0])), np.random.default_rng(2)
    for _ in range(20):
        bag.add(grid(draws.uniform(1.0, 4.0, size=10_000)))
    assert bag.total == 200_001
    assert len(bag.cells) <= 2 * 2**11 + 1, "two powers of two, each of 2,048 cells"
