"""Figures and cells: what they say of a share, and what of none."""

from __future__ import annotations

from alu.report.figures import Figure, count, distance, number, percent, share
from alu.report.tables import NONE, TOO_FEW, enough_cell, figure_cell, percent_cell, share_cell
from alu.stats import Share


def test_figures_keep_the_exact_value_beside_the_text() -> None:
    assert number("a", 2 / 3, 2) == Figure("a", 2 / 3, "0.67")
    assert percent("a", 1 / 3) == Figure("a", 1 / 3, "33.3 %")
    assert count("a", 12) == Figure("a", 12, "12")
    assert distance("a", 8 / 255, "Linf") == Figure("a", 8 / 255, "8.0/255")
    assert distance("a", 0.5, "L2") == Figure("a", 0.5, "0.500")


def test_a_share_has_a_key_for_each_of_its_figures() -> None:
    given = share("a/b", Share(3, 40), at_most=True)
    assert given is not None
    figures = (given.percent, given.low, given.high, given.count, given.n)
    assert [one.key for one in figures] == ["a/b", "a/b.low", "a/b.high", "a/b.count", "a/b.n"]
    assert [one.text for one in figures] == ["7.5 %", "2.6", "19.9", "3", "40"]
    assert given.amount == ["at most ", given.percent]
    assert given.interval == ["[", given.low, ", ", given.high, "]"]


def test_nothing_is_a_dash_and_a_handful_is_too_few() -> None:
    assert share("a", None) is None
    assert share("a", Share(0, 0)) is None
    assert figure_cell(None) is percent_cell(None) is share_cell(None) is NONE
    assert enough_cell("a", None) is enough_cell("a", Share(0, 0)) is NONE
    assert enough_cell("a", Share(1, 11)) is TOO_FEW
    assert enough_cell("a", Share(1, 12)) == share_cell(share("a", Share(1, 12)))


def test_n_stands_in_a_cell_where_no_other_says_it() -> None:
    given = share("a", Share(3, 40))
    assert given is not None
    assert share_cell(given).small == [[*given.interval, " n = ", given.n]]
    assert share_cell(given, n=False).small == [given.interval]
